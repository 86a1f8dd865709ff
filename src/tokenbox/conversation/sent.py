"""What is sent of messages and tools, and the days on which it may be."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tokenbox.content.message import InvalidMessage, Message, Part, PartKind, check_tools
from tokenbox.conversation.pieces import MEDIA

SOME_DAY: Final = dt.datetime(2024, 7, 26, 12, tzinfo=dt.UTC)
"""For a template that prints the date, where no clock was given: its counts are not exact."""
# Forms of a date that have no time of the day in them; the server may stand in another time zone.
_DAYS_ONLY: Final = re.compile(r"(?:[^%]|%[-_0^#]?[aAbBdeFgGhjmnuUVwWxyYDtC%])*")


def only_days(forms: Iterable[str]) -> bool:
    """Whether none of these forms of a date has a time of the day in it."""
    return all(map(_DAYS_ONLY.fullmatch, forms))


def mapping(message: Message | Mapping[str, object]) -> dict[str, Any]:
    """The message as it is sent, for a template."""
    return Message.of(message).to_dict(declared=False)


def tool_mappings(tools: object) -> Sequence[Mapping[str, Any]]:
    """The tools, if they are a list of mappings. What is in those, whoever reads them finds out."""
    if tools is None:
        return ()
    if isinstance(tools, Sequence) and all(isinstance(tool, Mapping) for tool in tools):
        return tools
    check_tools(tools)
    raise InvalidMessage("tools are a list of mappings.")


def without_media(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], int]:
    """The messages without their images and files, and what those are taken to cost."""
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
