"""The entry of a proof bundle: its call repeated if the texts are available, else its records.

The bundle has been verified. Only pure functions that are known here are called; a bundle cannot name others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.items import Item
from tokenbox.content.message import Message
from tokenbox.errors import TokenboxError, plural
from tokenbox.inspect.entries import entry_of
from tokenbox.inspect.of_gateway import BODY, gateway_items
from tokenbox.inspect.of_messages import opening, text_of
from tokenbox.inspect.record import (
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    PageStep,
    PageVerdict,
    check_items,
    limits_shown,
)
from tokenbox.proof.calls import Recorded, RecordedFunction, Texts
from tokenbox.proof.evidence import EvidenceStatus, Record
from tokenbox.proof.of_blocks import RENDER_BLOCKS
from tokenbox.proof.of_sections import LAYOUT
from tokenbox.proof.replay import recorded_arguments

if TYPE_CHECKING:
    from tokenbox.proof.contents import Contents


def proof_entry(contents: Contents, texts: Texts, title: str) -> PageEntry:
    """Return the entry of a verified bundle. ``texts``: those in the bundle, and those given again."""
    recorded = Recorded(contents, texts)
    entry = _repeated(recorded, title) or _records(recorded, title)
    predicate = recorded.predicate
    budget = predicate["budget"]
    sources = [
        (f"{name.replace('_', ' ')} from", str(part["source"]))
        for name, part in budget.items()
        if part["value"] is not None and part["source"] is not None
    ]
    engine = predicate["engine"]
    facts = (
        ("Bundle", contents.manifest.id),
        ("Made by", f"{engine['name']} {engine['version']}"),
        ("Function", f"{predicate['function']} ({predicate['algorithm']})"),
        *((("Model", str(predicate["model"])),) if predicate["model"] is not None else ()),
        *sources,
    )
    return replace(entry, kind="proof", facts=(*facts, *entry.facts), limits=_limits(budget))


def _repeated(recorded: Recorded, title: str) -> PageEntry | None:
    """Repeat the call and return its entry, or None if that fails or gives another digest."""
    function = _REPEATED.get(str(recorded.predicate["function"]))
    if function is None or recorded.predicate["digest"] is None:
        return None
    try:
        made = function.call(**recorded_arguments(function, recorded))
    except (TokenboxError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None
    if made.digest != recorded.predicate["digest"]:
        return None
    entry = entry_of(made, title)
    return replace(
        entry, notes=("Laid out again from the bundle; the digest equals the recorded one.", *entry.notes)
    )


_REPEATED: Final[Mapping[str, RecordedFunction[..., Any]]] = {
    function.name: function for function in (LAYOUT, RENDER_BLOCKS)
}


def _records(recorded: Recorded, title: str) -> PageEntry:
    predicate = recorded.predicate
    inputs = [record for record in recorded.inputs if record["kind"] != BODY]
    check_items(len(inputs))
    figures = predicate["figures"]
    decided = [record for record in recorded.contents.decisions if "action" not in record]
    outcome = predicate["outcome"]
    refused = outcome["status"] != EvidenceStatus.OK.value
    total = _tokens(figures.get("total", figures.get("tokens_in")))
    identity = predicate["tokenizer"]
    exact = figures.get("exact", identity["exact"]) is True
    done = _done(decided)
    before = _tokens(done[0].get("before")) if done else total
    evicted, cut = _numbers(done, "evicted"), _numbers(done, "messages", "shortened")
    parts = gateway_items(recorded, inputs, evicted, cut, (before, total))
    known = {str(record["id"]): i for i, record in enumerate(inputs, parts.first if parts else 0)}
    places = list(known.values())
    if parts is None:
        items = tuple(_item(record, recorded.texts) for record in inputs)
        changes = tuple(_states(items, decided, known, refused=refused))
    else:
        items, changes = parts.items, parts.sent or parts.given
    frame = PageFrame(
        _tokens(recorded.figure("tokens")),
        total,
        exact,
        changes,
        _tokens(figures.get("fixed_load")),
        tuple(_steps([*recorded.contents.decisions, *_inner(recorded.contents.decisions)], known, places)),
        prompt=recorded.texts.text(recorded.contents.manifest.emitted),
        parts_exact=None if parts is None else False,
    )
    frames: tuple[PageFrame, ...] = (frame,)
    if parts is not None and parts.sent is not None:
        given = replace(
            frame, label="as it was given", total=before, changes=parts.given, steps=(), prompt=parts.body
        )
        frames = (given, replace(frame, label="as it was sent"))
    missing = any(item.text is None for item in items if item.kind != "beside")
    notes = (
        "The bundle does not contain all texts: make bundles with --proof-texts, or give the files again.",
    )
    return PageEntry(
        title,
        "proof",
        items,
        frames,
        facts=(("Tokenizer", f"{identity['name']} ({'exact' if identity['exact'] else 'estimate'})"),),
        notes=notes if missing else (),
        separator="\n\n",
        verdict=_verdict(outcome, recorded.contents.decisions),
    )


def _verdict(outcome: Record, decisions: Sequence[Record]) -> PageVerdict | None:
    lines: list[str] = []
    is_verdict = False
    for record in decisions:
        if record.get("decision") in ("allowed", "denied", "admitted", "refused"):
            is_verdict = True
            if record.get("why"):
                lines.append(str(record["why"]))
        remedy = record.get("remedy")
        if isinstance(remedy, dict):
            lines.append(str(remedy.get("say")))
        done = record.get("done")
        if isinstance(done, dict):
            lines.append("Changed to make it fit: " + ", then ".join(map(_change, _changes(done))) + ".")
    passed = outcome["status"] == EvidenceStatus.OK.value
    if passed and not is_verdict:
        return None
    figures = outcome["figures"]
    if not passed:
        lines.append(", ".join([f"{outcome['code']}", *(f"{k} {v}" for k, v in figures.items())]))
    return PageVerdict.of_request(passed, lines)


def _changes(done: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the changes with which a gateway made a request fit, in order."""
    steps = done.get("steps") if done.get("action") == "several" else [done]
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _change(step: Mapping[str, Any]) -> str:
    before, after = _tokens(step.get("before")), _tokens(step.get("after"))
    sizes = "" if before is None or after is None else f" ({before:,} -> {plural(after, 'token')})"
    return f"{step.get('action')}{sizes}"


def _done(decisions: Sequence[Record]) -> list[Mapping[str, Any]]:
    done = [record["done"] for record in decisions if isinstance(record.get("done"), dict)]
    return [change for one in done for change in _changes(one)]


def _numbers(records: Sequence[Mapping[str, Any]], *names: str) -> set[int]:
    """Return the numbers of messages under these names in the records."""
    lists = [record.get(name) for record in records for name in names]
    return {number for one in lists if isinstance(one, list) for number in one if type(number) is int}


def _item(record: Record, texts: Texts) -> PageItem:
    fields = record["fields"]
    name = str(record["id"])
    text = texts.text(fields.get("content", record["digest"]))
    if record["kind"] == "message" and text is not None:
        text = _message_text(text)
        name = f"{name} {opening(text)}"
    shown = [
        (key, str(value)) for key, value in fields.items() if value not in (None, [], "") and key != "content"
    ]
    if record["from"] is not None:
        shown.append(("from", str(record["from"])))
    return PageItem(
        name,
        str(fields.get("role") or record["kind"]),
        text,
        _tokens(record["tokens"]),
        str(record["digest"]),
        record["kind"] == "section" and fields.get("shrink") == "0",
        tuple(shown),
    )


def _message_text(text: str) -> str:
    try:
        return text_of(Item((Message.of(json.loads(text)),)))
    except (TokenboxError, ValueError, TypeError, RecursionError):
        return text


def _states(
    items: Sequence[PageItem], decided: Sequence[Record], known: Mapping[str, int], *, refused: bool
) -> Iterator[PageState]:
    found = {known[str(one["id"])]: one for one in decided if str(one.get("id")) in known}
    done = _done(decided)
    evicted = _numbers([*decided, *done], "evicted")
    shortened = _numbers([*decided, *done], "shortened") | _numbers(done, "messages")
    placed = _numbers(decided, "messages")
    for i, item in enumerate(items):
        one = found.get(i)
        if one is None and i in evicted:
            yield PageState(i, "evicted", 0, "")
        elif one is None and i in shortened:
            yield PageState(i, "cut", None, None)
        elif one is None and i in placed:
            yield PageState(i, "kept", item.base, None)
        elif one is None:
            yield PageState(i, "given" if refused else "kept", item.base, item.text)
        else:
            decision = str(one.get("decision", one.get("form")))
            size = _tokens(one.get("size"))
            text = "" if size == 0 else item.text if decision in ("kept", "full") else None
            form = one.get("form")
            yield PageState(i, decision, size, text, str(form) if form and "decision" in one else None)


def _inner(decisions: Sequence[Record]) -> list[Record]:
    """Return the steps of a gateway's changes."""
    found: list[Record] = []
    for change in _done(decisions):
        inner = change.get("steps")
        found += [one for one in inner if isinstance(one, dict)] if isinstance(inner, list) else [change]
    return found


def _steps(
    decisions: Sequence[Record], known: Mapping[str, int], places: Sequence[int]
) -> Iterator[PageStep]:
    """Yield the steps. ``places``: the positions of the numbered messages on the page."""
    for record in decisions:
        if "action" not in record:
            continue
        numbers = record.get("messages")
        if isinstance(numbers, list):
            items = tuple(places[number] for number in numbers if number in range(len(places)))
        else:
            items = tuple(known[name] for name in (str(record.get("id")),) if name in known)
        before, after = _tokens(record.get("before")), _tokens(record.get("after"))
        if items and before is not None and after is not None:
            whole = isinstance(numbers, list)
            yield PageStep(items, str(record["action"]), _why(record), before, after, whole=whole)


def _why(record: Record) -> str:
    """Return the reason of a step; of a gateway's ``truncate``, its setting."""
    at_most = _tokens(record.get("at_most"))
    if record.get("why") is None and at_most is not None:
        return f"the setting truncate keeps at most {plural(at_most, 'token')} of an old text"
    return str(record.get("why") or "no reason is recorded")


def _limits(budget: Mapping[str, Record]) -> tuple[tuple[str, int], ...]:
    window, tokens = _tokens(budget["context_window"]["value"]), _tokens(budget["tokens"]["value"])
    reserve = _tokens(budget["output_reserve"]["value"])
    if window is None or tokens is None or reserve is None:
        return ()
    return limits_shown(window, reserve, max(0, window - reserve - tokens))


def _tokens(value: object) -> int | None:
    return value if type(value) is int else None
