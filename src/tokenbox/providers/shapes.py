"""Reading JSON that a server wrote: what is not there, or not of its type, is None."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenbox.providers.errors import BadAnswer, InvalidRequest


def at(value: object, path: str) -> Any:  # noqa: ANN401  # JSON
    """The value at a dotted path (``data.0.meta.n_ctx``), None where there is none."""
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def text_at(value: object, path: str) -> str:
    """The text at a path; empty where there is none."""
    found = at(value, path)
    return found if isinstance(found, str) else ""


def count_at(value: object, path: str) -> int | None:
    """The number of tokens at a path: a whole number from 0."""
    found = at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def items_at(value: object, path: str) -> list[Any]:
    """The list at a path; empty where there is none."""
    found = at(value, path)
    return found if isinstance(found, list) else []


def parsed(data: bytes | str, what: str) -> Any:  # noqa: ANN401  # JSON
    """``data`` as JSON. Raises :class:`BadAnswer`, which shows nothing of it."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        start = data[:200].decode("utf-8", "replace") if isinstance(data, bytes) else data[:200]
        size = f"{len(data):,} bytes" if isinstance(data, bytes) else f"{len(data):,} characters"
        found = "an HTML page" if is_html(start) else size if start.strip() else "empty"
        raise BadAnswer(
            f"{what} is not JSON: it is {found}. "
            "Does the endpoint lead to an LLM server, and not to a page or a proxy?"
        ) from None


def is_html(text: str) -> bool:
    """Whether ``text`` begins as a page does."""
    return re.match(r"\s*<(?:!doctype|html)", text, re.IGNORECASE) is not None


def written(value: object) -> bytes:
    """``value`` as JSON in UTF-8. Raises :class:`InvalidRequest`."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "the request holds lone surrogates, which are not Unicode text. "
            "Decode what it was read from with errors='replace'."
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the request has no JSON form: {type(error).__name__}: {error}.") from None
