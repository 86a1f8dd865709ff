"""Read JSON from a server: a missing value, or one of the wrong type, is None or empty."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenbox.integers import MAX_INTEGER
from tokenbox.providers.errors import BadAnswer, InvalidRequest


def at(value: object, path: str) -> Any:  # noqa: ANN401  # JSON
    """Return the value at a dotted path (``data.0.meta.n_ctx``); None if missing."""
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def text_at(value: object, path: str) -> str:
    """Return the text at a path; empty if missing."""
    found = at(value, path)
    return found if isinstance(found, str) else ""


def count_at(value: object, path: str) -> int | None:
    """Return the number of tokens at a path: an integer from 0 to 2^53 - 1; None for anything else."""
    found = at(value, path)
    return found if type(found) is int and 0 <= found <= MAX_INTEGER else None


def items_at(value: object, path: str) -> list[Any]:
    """Return the list at a path; empty if missing."""
    found = at(value, path)
    return found if isinstance(found, list) else []


def parsed(data: bytes | str, what: str) -> Any:  # noqa: ANN401  # JSON
    """Parse ``data`` as JSON. Raises :class:`BadAnswer`, which does not show the data."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        start = data[:200].decode("utf-8", "replace") if isinstance(data, bytes) else data[:200]
        size = f"{len(data):,} bytes" if isinstance(data, bytes) else f"{len(data):,} characters"
        found = "an HTML page" if is_html(start) else size if start.strip() else "empty"
        raise BadAnswer(
            f"{what} is not JSON: it is {found}. "
            "Check that the endpoint is an LLM server, not a web page or a proxy."
        ) from None


def is_html(text: str) -> bool:
    """Return whether ``text`` begins like an HTML page."""
    return re.match(r"\s*<(?:!doctype|html)", text, re.IGNORECASE) is not None


def written(value: object) -> bytes:
    """Return ``value`` as JSON in UTF-8. Raises :class:`InvalidRequest`."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "the request has lone surrogates, which are invalid Unicode. "
            "Decode the source with errors='replace'."
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the request cannot be JSON: {type(error).__name__}: {error}.") from None
