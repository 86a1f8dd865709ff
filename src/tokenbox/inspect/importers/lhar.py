"""Reads and writes LHAR, the LLM HTTP Archive of context-lens.

A file has JSON lines, a ``session`` and then an ``entry`` per request, or one object with both
(``.lhar.json``). An entry without bodies has the sizes of its parts, but not their texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.__about__ import __version__
from tokenbox.inspect.importers.request_log import items_of
from tokenbox.inspect.importers.transcript import (
    LoggedItem,
    Record,
    Transcript,
    TranscriptTurns,
    mapping,
    text_or_none,
    tokens_or_none,
)
from tokenbox.ledger.usage import Usage
from tokenbox.providers.usage import usage_in

if TYPE_CHECKING:
    from tokenbox.inspect.record import PageEntry, PageFrame, PageState

NAME: Final = "an LHAR file"
VERSION: Final = "0.1.0"
# The categories of LHAR by the kinds of items.
_CATEGORIES: Final = {
    "system": "system_prompt",
    "developer": "system_prompt",
    "tools": "tool_definitions",
    "tool": "tool_results",
    "function": "tool_results",
    "tool call": "tool_calls",
    "assistant": "assistant_text",
    "user": "user_text",
    "thinking": "thinking",
    "media": "images",
    "summary": "system_injections",
}
_ROLES: Final = {category: role for role, category in reversed(_CATEGORIES.items())}


def is_own(record: Record) -> bool:
    """Recognize the wrapping object, or a line of a session or an entry."""
    field = {"entry": "gen_ai", "session": "trace_id"}.get(str(record.get("type")))
    return isinstance(record.get("lhar"), dict) or field in record


def read(records: list[Record]) -> list[Transcript]:
    """Read a transcript for each session, in the order of the file."""
    entries: dict[str, list[Record]] = {}
    for record in records:
        wrapped = mapping(record.get("lhar")).get("entries")
        for entry in wrapped if isinstance(wrapped, list) else [record]:
            if mapping(entry).get("type") == "entry":
                entries.setdefault(str(entry.get("trace_id")), []).append(entry)
    return [_session(trace, found) for trace, found in entries.items()]


def _session(trace: str, entries: list[Record]) -> Transcript:
    turns = TranscriptTurns()
    tools = set()
    for entry in entries:
        gen_ai, lens = mapping(entry.get("gen_ai")), mapping(entry.get("context_lens"))
        tools.add(text_or_none(mapping(entry.get("source")).get("tool")))
        body = mapping(mapping(entry.get("raw")).get("request_body"))
        parts = lens.get("composition")
        turns.window = list(items_of(body))
        if not turns.window and isinstance(parts, list):
            turns.window = list(map(_part, parts))
        turns.request(
            body=body or None,
            usage=_usage(mapping(gen_ai.get("usage")), mapping(entry.get("usage_ext"))),
            model=text_or_none(mapping(gen_ai.get("response")).get("model"))
            or text_or_none(mapping(gen_ai.get("request")).get("model")),
            time=text_or_none(entry.get("timestamp")),
            note="compacted" if mapping(lens.get("growth")).get("compaction_detected") is True else None,
            window=tokens_or_none(lens.get("window_size")) or None,
        )
    named = ", ".join(sorted(tool for tool in tools if tool))
    return Transcript(f"LHAR{f' of {named}' if named else ''}", tuple(turns.requests), trace)


def _part(part: object) -> LoggedItem:
    given = mapping(part)
    category = str(given.get("category"))
    return LoggedItem(_ROLES.get(category, category), None, category, tokens_or_none(given.get("tokens")))


def _usage(stated: Record, extra: Record) -> Usage | None:
    if not stated:
        return None
    cached, written = extra.get("cache_read_tokens"), extra.get("cache_write_tokens")
    plain = usage_in(
        {"input_tokens": stated.get("input_tokens"), "output_tokens": stated.get("output_tokens")}
    )
    if plain is None or plain.input_tokens is None:
        return plain
    # Some collectors include cached tokens in the input, as tokenbox does; others count them separately.
    parts = sum(tokens_or_none(part) or 0 for part in (cached, written))
    read = plain.input_tokens if plain.input_tokens >= parts else plain.input_tokens + parts
    return Usage.reported(read, plain.output_tokens, cached, None, written)


def written(entries: Sequence[PageEntry], *, wrapped: bool) -> bytes:
    """Write the entries of a page as LHAR: as one object if ``wrapped`` (``.lhar.json``), else as lines."""
    sessions, found = [], []
    for entry in entries:
        trace = hashlib.sha256(json.dumps([entry.title, entry.kind]).encode()).hexdigest()[:32]
        requests = list(_entries(entry, trace))
        model = dict(entry.facts).get("Model", "unknown")
        times = [request["timestamp"] for request in requests if request["timestamp"]]
        sessions.append(
            {"trace_id": trace, "started_at": times[0] if times else "", "tool": "tokenbox", "model": model}
        )
        found += requests
    if wrapped:
        creator = {"name": "tokenbox", "version": __version__}
        whole = {"lhar": {"version": VERSION, "creator": creator, "sessions": sessions, "entries": found}}
        return _json(whole)
    return b"".join(
        [*(_json({"type": "session", **session}) for session in sessions), *(_json(one) for one in found)]
    )


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _entries(entry: PageEntry, trace: str) -> Iterator[dict[str, object]]:
    states: dict[int, PageState] = {}
    before: str | None = None
    total_before: int | None = None
    model = dict(entry.facts).get("Model", "unknown")
    for number, frame in enumerate(entry.frames):
        states |= {state.item: state for state in frame.changes}
        shown = [state for i, state in sorted(states.items()) if state.size]
        total = frame.total or 0
        identity = hashlib.sha256(f"{trace} {number}".encode()).hexdigest()
        usage = frame.usage
        body = _body(entry, shown, model)
        yield {
            "type": "entry",
            "id": identity[:36],
            "trace_id": trace,
            "span_id": identity[:16],
            "parent_span_id": before,
            "timestamp": frame.time or "",
            "sequence": number + 1,
            "source": {
                "tool": "tokenbox",
                "tool_version": __version__,
                "agent_role": "main",
                "collector": "tokenbox",
                "collector_version": __version__,
            },
            "gen_ai": {
                "system": "unknown",
                "request": {
                    "model": model,
                    **dict.fromkeys(("max_tokens", "temperature", "top_p")),
                    "stop_sequences": [],
                },
                "response": {"model": None, "finish_reasons": []},
                "usage": _stated(total, None if usage is None else usage.output),
            },
            "usage_ext": {
                "cache_read_tokens": 0 if usage is None else usage.cached or 0,
                "cache_write_tokens": 0 if usage is None else usage.written or 0,
                "cost_usd": None if usage is None or usage.cost is None else float(usage.cost),
            },
            "http": {
                "method": "POST",
                "url": None,
                "status_code": None,
                "api_format": "unknown",
                "stream": False,
                "request_headers": {},
                "response_headers": {},
            },
            "timings": None,
            "transfer": {
                "request_bytes": 0 if body is None else len(_json(body)) - 1,
                "response_bytes": 0,
                "compressed": False,
            },
            "context_lens": _composed(entry, frame, shown, total, total_before),
            "raw": {"request_body": body, "response_body": None},
        }
        before, total_before = identity[:16], total


def _stated(total: int, output: int | None) -> dict[str, int]:
    return {"input_tokens": total, "output_tokens": output or 0, "total_tokens": total + (output or 0)}


def _composed(
    entry: PageEntry, frame: PageFrame, shown: Sequence[PageState], total: int, before: int | None
) -> dict[str, object]:
    sizes: dict[str, list[int]] = {}
    for state in shown:
        category = _CATEGORIES.get(entry.items[state.item].kind, "other")
        sizes.setdefault(category, []).append(state.size or 0)
    in_parts = sum(map(sum, sizes.values())) or 1
    window = frame.budget or 0
    by = {category: sum(found) for category, found in sizes.items()}
    system, tools = by.get("system_prompt", 0), by.get("tool_definitions", 0)
    return {
        "window_size": window,
        "utilization": round(total / window, 4) if window else 0,
        "system_tokens": system,
        "tools_tokens": tools,
        "messages_tokens": sum(by.values()) - system - tools,
        "composition": [
            {
                "category": category,
                "tokens": sum(found),
                "pct": round(100 * sum(found) / in_parts, 1),
                "count": len(found),
            }
            for category, found in sizes.items()
        ],
        "growth": {
            "tokens_added_this_turn": None if before is None else total - before,
            "cumulative_tokens": total,
            "compaction_detected": frame.note is not None and "compacted" in frame.note,
        },
        "security": {"alerts": [], "summary": {"high": 0, "medium": 0, "info": 0}},
    }


def _body(entry: PageEntry, shown: Sequence[PageState], model: str) -> dict[str, object] | None:
    """Return the request as messages, or None if a text is unknown."""
    if any(state.text is None and state.decision != "beside" for state in shown):
        return None
    roles = {"system", "developer", "user", "assistant", "tool"}
    return {
        "model": model,
        "messages": [
            {"role": kind if kind in roles else _AS.get(kind, "user"), "content": state.text}
            for state in shown
            if state.text is not None
            for kind in (entry.items[state.item].kind,)
        ],
    }


_AS: Final = {"tool call": "assistant", "thinking": "assistant", "tools": "system", "summary": "user"}
