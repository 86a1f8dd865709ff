"""The result of an importer: the requests of a session, each as its difference from the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tokenbox.ledger.usage import Usage, is_count

Record = dict[str, Any]
"""A JSON object from an untrusted file."""


@dataclass(frozen=True, slots=True)
class LoggedItem:
    """A part of a request. ``role``: as in chats, or ``thinking``. ``tokens``: as logged, if known."""

    role: str
    text: str | None = field(repr=False)
    name: str | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request: the first ``keep`` items of the one before, and the items it ``added``.

    ``usage``: as reported by the server. ``time`` (RFC 3339) and ``body``: if the log has them.
    """

    keep: int
    added: tuple[LoggedItem, ...]
    usage: Usage | None = None
    model: str | None = None
    time: str | None = None
    note: str | None = None
    body: Record | None = field(default=None, repr=False)
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The requests of a session. ``missing``: the log lacks parts of the requests, such as tools."""

    source: str
    requests: tuple[LoggedRequest, ...]
    session: str | None = None
    missing: bool = False
    notes: tuple[str, ...] = ()


class TranscriptTurns:
    """Builds the requests of a session from ``window``, a list of items that grows or is replaced.

    A list that only grew since the last request begins with what was sent then, so nothing is compared and a
    session takes time in proportion to its items.
    """

    def __init__(self) -> None:
        self.window: list[LoggedItem] = []
        self.requests: list[LoggedRequest] = []
        self._sent, self._length = self.window, 0

    def request(self, length: int | None = None, **known: Any) -> None:  # fields of LoggedRequest
        """Add a request with the first ``length`` items of the window; by default, with all."""
        length = len(self.window) if length is None else length
        keep = min(self._length, length)
        if self._sent is not self.window:
            pairs = zip(islice(self._sent, keep), self.window, strict=False)
            keep = next((place for place, (one, other) in enumerate(pairs) if one != other), keep)
        self.requests.append(LoggedRequest(keep, tuple(self.window[keep:length]), **known))
        self._sent, self._length = self.window, length


def texts_of(content: object) -> Iterator[tuple[str, str, str | None]]:
    """Yield the parts of a message's content: the role of the part (or ``""``), its text, its name."""
    if isinstance(content, str):
        yield "", content, None
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                yield "", part, None
            elif isinstance(part, dict):
                yield _part(part)
    elif content is not None:
        yield "", as_text(content), None


def _part(part: Mapping[str, Any]) -> tuple[str, str, str | None]:
    kind = part.get("type")
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return "tool call", as_text(part.get("input")), text_or_none(part.get("name"))
    if isinstance(kind, str) and kind.endswith("tool_result"):
        return "tool", "\n".join(text for _, text, _ in texts_of(part.get("content"))), None
    if kind in ("thinking", "redacted_thinking"):
        return "thinking", str(part.get("thinking") or part.get("data") or ""), None
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return "", part[key], None
    if isinstance(kind, str) and kind in _MEDIA:
        return "media", f"[{kind}]", None
    return "", as_text(part), None


_MEDIA: Final = frozenset({"image", "image_url", "input_image", "document", "file", "input_file"})


def as_text(value: object) -> str:
    """Return a text unchanged, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def tokens_or_none(value: object) -> int | None:
    return value if is_count(value) else None


def mapping(value: object) -> Record:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}
