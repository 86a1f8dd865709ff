"""The version and the name of the distribution. The build reads the version from here."""

from __future__ import annotations

__version__ = "0.1.0"

DISTRIBUTION = "tokenbox-llm"
"""The name to install. On PyPI the name ``tokenbox`` belongs to another project."""
