"""Adapters for other libraries, each a thin module over :mod:`tokenbox.api`."""
