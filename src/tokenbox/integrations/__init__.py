"""Where tokenbox goes into other tools: each module is thin, over :mod:`tokenbox.api`."""
