"""Transcripts of Claude Code: a JSON object per line, in ``~/.claude/projects``.

A line is a message of the user (including tool results) or a part of an answer. The parts of an answer share
its message id and usage. Compacted messages are no longer sent. The file has no system prompt and no tools.
Lines of other agents (``isSidechain``) are separate conversations and are skipped, unless the file has no
others: it is then the conversation of such an agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tokenbox.inspect.importers.transcript import (
    LoggedItem,
    Record,
    Transcript,
    TranscriptTurns,
    mapping,
    text_or_none,
    texts_of,
)
from tokenbox.providers.usage import usage_in

NAME: Final = "a transcript of Claude Code"
_ROLES: Final = frozenset({"user", "assistant"})
_IDS: Final = frozenset({"sessionId", "uuid", "parentUuid"})


def is_own(record: Record) -> bool:
    """Recognize a line with a message and a session or an id."""
    is_message = str(record.get("type")) in _ROLES and isinstance(record.get("message"), dict)
    return is_message and not _IDS.isdisjoint(record)


def read(records: list[Record]) -> list[Transcript]:
    """Read the session of the file."""
    usages = {
        text_or_none(message.get("id")): message["usage"]
        for record in records
        if record.get("type") == "assistant" and (message := mapping(record.get("message"))).get("usage")
    }
    is_agents = all(record.get("isSidechain") is True for record in records if is_own(record))
    turns, answered = TranscriptTurns(), object()
    note, aside, session = None, 0, None
    for record in records:
        if record.get("isSidechain") is True and not is_agents:
            aside += 1
            continue
        session = session or text_or_none(record.get("sessionId"))
        if record.get("subtype") == "compact_boundary" or record.get("isCompactSummary") is True:
            if note is None:
                turns.window = []
            note = "compacted before this turn"
        if str(record.get("type")) not in _ROLES:
            continue
        message = mapping(record.get("message"))
        if record["type"] == "assistant" and message.get("model") != "<synthetic>":
            identity = text_or_none(message.get("id")) or text_or_none(record.get("uuid"))
            if identity is None or identity != answered:
                stated = usages.get(text_or_none(message.get("id"))) or message.get("usage")
                turns.request(
                    usage=usage_in(stated),
                    model=text_or_none(message.get("model")),
                    time=text_or_none(record.get("timestamp")),
                    note=note,
                )
                answered, note = identity, None
        turns.window += _items(str(record["type"]), message.get("content"))
    notes = [f"Lines left out because they belong to other agents: {aside:,}."] if aside else []
    return [Transcript("Claude Code", tuple(turns.requests), session, missing=True, notes=tuple(notes))]


def _items(role: str, content: object) -> Iterator[LoggedItem]:
    for part, text, name in texts_of(content):
        if text:
            yield LoggedItem(part or role, text, name)
