"""What the gateway offers, as OpenAPI 3.1: data."""

from __future__ import annotations

from typing import Any

from tokenbox.__about__ import __version__


def document() -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "tokenbox gateway", "version": __version__}, "paths": {}}
