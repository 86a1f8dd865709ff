"""Load what gateways need, for the process that they are forks of: all modules, and a vocabulary."""

from __future__ import annotations

import sys

import tokenbox.cli.app
import tokenbox.cli.gateway
import tokenbox.gateway.configured
import tokenbox.gateway.run  # noqa: F401  # each is loaded for the forks
from tokenbox.tokenizers.registry import get

sys.modules["fastokens"] = None  # type: ignore[assignment]  # it takes seconds to load, so it is not installed
get("o200k_base").count("")
