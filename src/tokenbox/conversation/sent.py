"""Messages and tools in the form in which they are sent to a template, and dates in templates."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import InvalidMessage, Message, Part, PartKind, check_tools
from tokenbox.conversation.pieces import MEDIA

SOME_DAY: Final = dt.datetime(2024, 7, 26, 12, tzinfo=dt.UTC)
"""The date for templates that print it, if no clock was given: their counts are not exact."""
# Date formats without a time of day; the server may be in another time zone.
_DAYS_ONLY: Final = re.compile(r"(?:[^%]|%[-_0^#]?[aAbBdeFgGhjmnuUVwWxyYDtC%])*")


def only_days(forms: Iterable[str]) -> bool:
    """Return True if none of these date formats includes a time of day."""
    return all(map(_DAYS_ONLY.fullmatch, forms))


def mapping(message: Message | Mapping[str, object]) -> dict[str, Any]:
    """Return the message as it is sent, for a template."""
    return Message.of(message).to_dict(declared=False)


def tool_mappings(tools: object) -> Sequence[Mapping[str, Any]]:
    """Return the tools if they are a list of mappings, without validating the mappings."""
    if tools is None:
        return ()
    if isinstance(tools, Sequence) and all(isinstance(tool, Mapping) for tool in tools):
        return tools
    check_tools(tools)
    raise InvalidMessage("tools are a list of mappings.")


def without_media(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], int]:
    """Return the messages without images and files, and the estimated cost of those."""
    if not any(message.media for message in messages):
        return messages, 0
    cost = MEDIA * sum(len(message.media) for message in messages)
    return tuple(_texts_only(message) if message.media else message for message in messages), cost


def _texts_only(message: Message) -> Message:
    content = message.content
    parts = [
        part.to_dict() for part in content or () if isinstance(part, Part) and part.kind is PartKind.TEXT
    ]
    return Message.of({**message.to_dict(), "content": parts})
