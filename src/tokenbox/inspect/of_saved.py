"""The entries of records that commands saved with ``--json``.

A record has the decisions, but not the original texts. It is a file, so its content is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from tokenbox.compose.blocks import SCHEMA as BLOCKS
from tokenbox.compose.diff import SCHEMA as LAYOUT
from tokenbox.conversation.record import SCHEMA as WINDOW
from tokenbox.folder.packed import SCHEMA as FOLDER
from tokenbox.inspect.record import (
    NothingToInspect,
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    PageStep,
    PageVerdict,
    check_items,
    limits_shown,
    with_hidden,
)
from tokenbox.ledger.usage import is_count
from tokenbox.policy.records import SCHEMA_ENFORCEMENT, SCHEMA_ESTIMATE, SCHEMA_PLAN

Data = Mapping[str, Any]


def saved_entry(data: Data, title: str) -> PageEntry | None:
    """Return the entry of a saved record, or None for an unknown schema. Raises :class:`NothingToInspect`."""
    of_error = _refusal if isinstance(data.get("error"), Mapping) else None
    build = SCHEMAS.get(str(data.get("schema")), of_error)
    if build is None:
        return None
    try:
        return build(data, title)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise NothingToInspect(
            f"{title} is not a valid record of tokenbox ({type(error).__name__}: {error}). "
            "Write it again with --json.",
            file=title,
        ) from None


def _layout(data: Data, title: str) -> PageEntry:
    sections = _list(data["sections"])
    steps = [
        PageStep((i,), str(step["action"]), str(step["why"]), int(step["before"]), int(step["after"]))
        for i, one in enumerate(sections)
        for step in _list(one.get("steps", []))
    ]
    notes = tuple(str(warned.get("message")) for warned in _list(data.get("warnings", [])))
    frame = _frame(data, _states(sections), steps=steps, fixed=_tokens(data["fixed_load"]))
    facts = (*_counted(data), ("Policy", str(data.get("policy", "facet"))))
    return PageEntry(title, "layout", _items(sections, "section"), (frame,), (*facts, *_digest(data)), notes)


def _blocks(data: Data, title: str) -> PageEntry:
    blocks = _list(data["blocks"])
    items = tuple(
        PageItem(
            str(one["description"]) or f"block {one['index']}",
            str(one["type"]),
            None,
            _tokens(one["base_size"]),
            critical=one["priority"] == "critical",
            fields=(("priority", str(one["priority"])),),
        )
        for one in blocks
    )
    frame = _frame(data, _states(blocks, "form"), steps=list(_reasons(blocks, "form")))
    return PageEntry(title, "blocks", items, (frame,), (*_counted(data), *_digest(data)))


def _folder(data: Data, title: str) -> PageEntry:
    entry = _blocks(data["rendering"], title)
    known = {item.id for item in entry.items}
    files = _list(data["files"])
    hidden = [file for file in files if file["path"] not in known]
    items = [PageItem(str(file["path"]), "file", None, _tokens(file["tokens"])) for file in hidden]
    query = () if data.get("query") is None else (("Query", str(data["query"])),)
    return replace(
        with_hidden(entry, items, [str(file["shown"]) for file in hidden]),
        facts=(("Files", f"{len(files):,}"), *query, *entry.facts),
    )


def _window(data: Data, title: str) -> PageEntry:
    exchanges = _list(data["exchanges"])
    items = tuple(
        PageItem(
            f"exchange {i + 1}",
            "exchange",
            None,
            _tokens(one["base_size"]),
            fields=(("messages", ", ".join(str(int(n) + 1) for n in _list(one["messages"]))),),
        )
        for i, one in enumerate(exchanges)
    )
    of = {int(n): i for i, one in enumerate(exchanges) for n in _list(one["messages"])}
    steps = [
        PageStep(
            tuple(dict.fromkeys(of[int(n)] for n in _list(step["messages"]) if int(n) in of)),
            str(step["action"]),
            str(step["why"]),
            int(step["before"]),
            int(step["after"]),
            whole=True,
        )
        for step in _list(data["steps"])
    ]
    frame = _frame(data, _states(exchanges), steps=steps)
    return PageEntry(title, "conversation", items, (frame,), (*_counted(data), *_digest(data)))


def _plan(data: Data, title: str) -> PageEntry:
    inner = saved_entry(data["layout"], title)
    if inner is None:  # a strategy of the user's own
        chunks = sorted([*_list(data["packed"]), *_list(data["dropped"])], key=lambda one: int(one["index"]))
        frame = _frame(data, _states(chunks), steps=list(_reasons(chunks, "decision")))
        inner = PageEntry(title, "plan", _items(chunks, "chunk"), (frame,), _counted(data))
    facts = (_model(data), ("Strategy", str(data["strategy"])))
    return replace(inner, kind="plan", facts=(*facts, *inner.facts), limits=_limits(data["limits"]))


def _enforcement(data: Data, title: str) -> PageEntry:
    why = data["why"]
    limits = _limits(why)
    held = sum(tokens for _, tokens in limits[1:])
    frame = PageFrame(
        limits[0][1] - held if limits else None, _tokens(why["tokens_in"]), why["exact"] is True, ()
    )
    lines = (str(why["say"]), *(str(remedy["say"]) for remedy in _list(data["plan"])))
    verdict = PageVerdict.of_request(data["ok"] is True, lines)
    facts = (_model(data), *_counted(data))
    notes = tuple(map(str, _list(why.get("notes", []))))
    return PageEntry(title, "decision", (), (frame,), facts, notes, limits=limits, verdict=verdict)


def _estimate(data: Data, title: str) -> PageEntry:
    items = _items(_list(data["per_chunk"]), "chunk", "tokens")
    states = tuple(PageState(i, "kept", item.base, None) for i, item in enumerate(items))
    frame = PageFrame(None, _tokens(data["tokens_in"]), data["exact"] is True, states)
    return PageEntry(title, "estimate", items, (frame,), _counted(data))


def _refusal(data: Data, title: str) -> PageEntry:
    """Return the entry of a saved error."""
    error = data["error"]
    # The budget may be what is wrong: -5.
    budget, total = (
        figure if is_count(figure := error.get(name)) else None for name in ("budget", "fixed_load")
    )
    frame = PageFrame(budget, total, error.get("exact") is not False, ())
    verdict = PageVerdict(ok=False, title="Nothing was made.", lines=(str(error.get("message")),))
    return PageEntry(title, "refusal", (), (frame,), (("Code", str(error.get("code"))),), verdict=verdict)


def _batch(data: Data, title: str) -> PageEntry:
    """Return the entry of the summary of a batch, which has totals and no rows."""
    tokens, outcomes = data["tokens"], data["outcomes"]
    facts = [("Task", str(data["task"])), ("Rows", f"{int(data['rows']):,}")]
    facts += [(f"Rows {name}", f"{int(number):,}") for name, number in outcomes.items()]
    facts += [(f"Error {code}", f"{int(number):,}") for code, number in data["errors"].items()]
    if tokens["saved"] is not None:
        facts.append(("Tokens saved", f"{int(tokens['saved']):,}"))
    facts += [
        (f"Rows of {int(one['above']) + 1:,} to {int(one['at_most']):,} tokens", f"{int(one['rows']):,}")
        for one in _list(data["histogram"])
    ]
    cost = data.get("cost")
    if cost is not None and cost["dollars"] is not None:
        facts.append(("Cost of the input", f"{'' if cost['exact'] else '~'}${cost['dollars']}"))
    facts += [_model(data), *_counted(data), *_digest(data)]
    frame = PageFrame(None, _tokens(tokens["total"]), tokens["exact"] is True, ())
    return PageEntry(title, "batch", (), (frame,), tuple(facts))


# The schema of ``tokenbox batch``, repeated here because neither package may import the other.
BATCH: Final = "tokenbox.batch.summary/1"
SCHEMAS: Final[Mapping[str, Callable[[Data, str], PageEntry]]] = {
    LAYOUT: _layout,
    BLOCKS: _blocks,
    FOLDER: _folder,
    WINDOW: _window,
    SCHEMA_PLAN: _plan,
    SCHEMA_ENFORCEMENT: _enforcement,
    SCHEMA_ESTIMATE: _estimate,
    BATCH: _batch,
}


def _items(rows: Sequence[Data], kind: str, size: str = "base_size") -> tuple[PageItem, ...]:
    return tuple(PageItem(str(one["id"]), kind, None, _tokens(one[size])) for one in rows)


def _states(rows: Sequence[Data], decided: str = "decision") -> tuple[PageState, ...]:
    """Return the states. An item without tokens has the empty text; other texts are not in the record."""
    return tuple(
        PageState(
            i,
            str(one[decided]),
            _tokens(one["size"]),
            "" if one["size"] == 0 else None,
            None if decided == "form" else _text(one.get("form")),
        )
        for i, one in enumerate(rows)
    )


def _frame(
    data: Data, states: tuple[PageState, ...], *, steps: Sequence[PageStep], fixed: int | None = None
) -> PageFrame:
    check_items(len(states))
    budget, total = _tokens(data["budget"]), _tokens(data["total"])
    prompt = _text(data.get("text"))
    return PageFrame(budget, total, _is_exact(data), states, fixed, tuple(steps), prompt=prompt)


def _is_exact(data: Data) -> bool:
    """Return whether the total is exact. A count of messages says so itself."""
    count = data.get("count")
    if isinstance(count, Mapping):
        return count["exact"] is True
    return data.get("exact", data["tokenizer"]["exact"]) is True


def _reasons(found: Sequence[Data], named: str) -> Iterator[PageStep]:
    for i, one in enumerate(found):
        for why in _list(one.get("why", [])):
            yield PageStep((i,), str(one[named]), str(why), int(one["base_size"]), int(one["size"]))


def _limits(data: Data) -> tuple[tuple[str, int], ...]:
    window, usable, reserve = (_tokens(data.get(name)) for name in ("max_ctx", "usable", "reserve_out"))
    if window is None or reserve is None:
        return ()
    return limits_shown(window, reserve, 0 if usable is None else window - usable)


def _counted(data: Data) -> tuple[tuple[str, str], ...]:
    return (("Tokenizer", str(data["tokenizer"]["name"])),)


def _model(data: Data) -> tuple[str, str]:
    return "Model", str(data["model"] or "not named")


def _digest(data: Data) -> tuple[tuple[str, str], ...]:
    return (("Digest", str(data["digest"])),)


def _tokens(value: object) -> int | None:
    if value is None:
        return None
    if not is_count(value):
        raise ValueError(f"{value!r} is not a number of tokens")
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.40} is not a list")
    return value
