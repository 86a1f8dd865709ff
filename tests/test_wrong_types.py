"""Values of the wrong type at the public calls are typed errors; integers of any library are integers."""

from __future__ import annotations

import random
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tokenbox
from tests.conversation.test_one_number import request
from tokenbox import TokenboxError, batch, caching, ctx, lcp
from tokenbox.catalog import Price
from tokenbox.compose.selection import Chunk
from tokenbox.content.block_kinds import FormatHint
from tokenbox.content.blocks import CodeBlock, DocumentBlock
from tokenbox.conversation import shorten_tools, tool_costs
from tokenbox.ledger import Usage, cost_of
from tokenbox.models import resolve
from tokenbox.tokenizers import get, truncate
from tokenbox.tokenizers.index import TextIndex

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = [{"role": "user", "content": "hi there"}]
SECTIONS = [{"id": "a", "content": "one two three"}]
BLOCKS = [DocumentBlock("a", b"some text", FormatHint.PLAIN)]
WRONG: list[Any] = [
    3,
    -1,
    3.5,
    True,
    b"x",
    "abc",
    [5],
    [None],
    ["a", 5],
    {"a": 1},
    {5},
    object(),
    iter(()),
    10**5000,
    np.float32(3.5),
    np.array(3.5),  # of no dimensions: it passes for an Iterable
]
CALLS: dict[str, Callable[[Any], object]] = {
    "count what": lambda it: tokenbox.count(it, tokenizer="o200k_base"),
    "count model": lambda it: tokenbox.count(MESSAGES, model=it),
    "count tokenizer": lambda it: tokenbox.count(MESSAGES, tokenizer=it),
    "count tools": lambda it: tokenbox.count(MESSAGES, model="gpt-4o", tools=it),
    "count response_format": lambda it: tokenbox.count(MESSAGES, model="gpt-4o", response_format=it),
    "fit messages": lambda it: tokenbox.fit(it, 400, "o200k_base"),
    "fit budget": lambda it: tokenbox.fit(MESSAGES, it, "o200k_base"),
    "fit tokenizer": lambda it: tokenbox.fit(MESSAGES, 400, tokenizer=it),
    "fit model": lambda it: tokenbox.fit(MESSAGES, 400, model=it),
    "fit tools": lambda it: tokenbox.fit(MESSAGES, 400, "o200k_base", tools=it),
    "layout sections": lambda it: tokenbox.layout(it, 400, "o200k_base"),
    "layout budget": lambda it: tokenbox.layout(SECTIONS, it, "o200k_base"),
    "layout tokenizer": lambda it: tokenbox.layout(SECTIONS, 400, it),
    "layout separator": lambda it: tokenbox.layout(SECTIONS, 400, "o200k_base", it),
    "whatif budgets": lambda it: tokenbox.whatif(SECTIONS, it, "o200k_base"),
    "render_blocks blocks": lambda it: tokenbox.render_blocks(it, "o200k_base", 400),
    "render_blocks budget": lambda it: tokenbox.render_blocks(BLOCKS, "o200k_base", it),
    "select chunks": lambda it: tokenbox.select(it, 50, tokenizer="o200k_base"),
    "select query": lambda it: tokenbox.select(["a"], 50, it, tokenizer="o200k_base"),
    "breakpoints low": lambda it: tokenbox.breakpoints(SECTIONS, it, 50, "o200k_base"),
    "pack path": lambda it: tokenbox.pack(it, 300, tokenizer="o200k_base"),
    "pack query": lambda it: tokenbox.pack(__file__, 300, query=it, tokenizer="o200k_base"),
    "select budget": lambda it: tokenbox.select(["a"], it, tokenizer="o200k_base"),
    "pack budget": lambda it: tokenbox.pack(__file__, it, tokenizer="o200k_base"),
    "section": lambda it: tokenbox.Section.of(it, 0),
    "section priority": lambda it: tokenbox.Section("a", "x", priority=it),
    "section min": lambda it: tokenbox.Section("a", "x", min=it),
    "section shrink": lambda it: tokenbox.Section("a", "x", shrink=it),
    "section extra": lambda it: tokenbox.Section("a", "x", extra=it),
    "lcp encode": lcp.encode,
    "lcp compression": lambda it: lcp.encode(BLOCKS, compression=it),
    "lcp decode": lcp.decode,
    "block title": lambda it: tokenbox.render_blocks(
        [DocumentBlock(it, b"a", FormatHint.PLAIN)], "o200k_base"
    ),
    "block content": lambda it: tokenbox.render_blocks(
        [DocumentBlock("a", it, FormatHint.PLAIN)], "o200k_base"
    ),
    "block lang": lambda it: tokenbox.render_blocks(
        [CodeBlock(it, "a", b"b")], "o200k_base", mode="markdown"
    ),
    "message": tokenbox.Message.of,
    "chat format of a file": tokenbox.ChatFormat.open,
    "tokenizer": get,
    "truncate": lambda it: truncate("a b c", it, get("o200k_base")),
    "capabilities": ctx.capabilities,
    "discover": ctx.discover,
    "estimate chunks": lambda it: ctx.estimate("gpt-4o", it),
    "estimate model": lambda it: ctx.estimate(it, ["text"]),
    "estimate tools": lambda it: ctx.estimate("gpt-4o", MESSAGES, tools=it),
    "pack max_ctx": lambda it: ctx.pack(["text"], it, tokenizer="o200k_base"),
    "enforce chunks": lambda it: ctx.enforce("gpt-4o", it, max_ctx=400),
    "enforce max_ctx": lambda it: ctx.enforce("gpt-4o", ["text"], max_ctx=it),
    "cache plan body": caching.plan,
    "cache plan model": lambda it: caching.plan({"messages": MESSAGES}, model=it),
    "cache plan requests": lambda it: caching.plan({"messages": MESSAGES}, model="gpt-4o", requests=it),
    "cache plan before": lambda it: caching.plan({"messages": MESSAGES}, model="gpt-4o", before=it),
    "first change": lambda it: caching.first_change(it, it),
    "server side": lambda it: caching.server_side(it, None),
    "price input": lambda it: cost_of(Usage(1, 1), Price(it, it)),
    "usage": lambda it: Usage(it, 1),
    "shorten tools": lambda it: shorten_tools(it, 50, "gpt-4o"),
    "tool costs": lambda it: tool_costs(it, "gpt-4o"),
    "conversation system": lambda it: tokenbox.Conversation(it, "gpt-4o", token_budget=50),
    "conversation budget": lambda it: tokenbox.Conversation("a", "gpt-4o", token_budget=it),
    "conversation message": lambda it: tokenbox.Conversation("a", "gpt-4o").user(it),
    "conversation messages": lambda it: tokenbox.Conversation("a", "gpt-4o").extend(it),
    "chat format of a server": lambda it: tokenbox.ChatFormat.from_server(it, "server"),
    "resolve model": resolve,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_value_of_the_wrong_type_is_a_typed_error_or_is_right(call: str) -> None:
    refused = 0
    for value in WRONG:
        try:
            CALLS[call](value)
        except TokenboxError:
            refused += 1
    assert refused


BATCH = {"task": "count", "content": "text", "model": "gpt-4o", "overwrite": True, "engine": "inline"}
TOOLS = [{"type": "function", "function": {"name": "f", "description": "Adds."}}]
VALID: dict[Callable[..., object], dict[str, Any]] = {
    tokenbox.count: {"what": MESSAGES, "model": "gpt-4o"},
    tokenbox.api.count_texts: {"texts": ["a"], "model": "gpt-4o"},
    tokenbox.fit: {"messages": MESSAGES, "budget": 400, "model": "gpt-4o"},
    tokenbox.layout: {"sections": SECTIONS, "budget": 100, "tokenizer": "o200k_base"},
    tokenbox.whatif: {"sections": SECTIONS, "budgets": [100], "tokenizer": "o200k_base"},
    tokenbox.breakpoints: {"sections": SECTIONS, "low": 1, "high": 20, "tokenizer": "o200k_base"},
    tokenbox.render_blocks: {"blocks": BLOCKS, "tokenizer": "o200k_base", "budget": 100},
    tokenbox.select: {"chunks": ["a", "b"], "budget": 20, "query": "a", "tokenizer": "o200k_base"},
    tokenbox.pack: {"path": "a.py", "budget": 300, "tokenizer": "o200k_base"},
    tokenbox.Conversation: {"system": "a", "count": "gpt-4o", "token_budget": 500},
    tokenbox.Section: {"id": "a", "content": "b"},
    ctx.estimate: {"model": "gpt-4o", "chunks": MESSAGES, "tokenizer": "o200k_base"},
    ctx.pack: {"chunks": ["text"], "max_ctx": 100, "tokenizer": "o200k_base"},
    ctx.enforce: {"model": "gpt-4o", "chunks": ["t"], "max_ctx": 400, "tokenizer": "o200k_base"},
    ctx.capabilities: {"query": "gpt-4o"},
    caching.plan: {"body": {"messages": MESSAGES}, "model": "gpt-4o"},
    shorten_tools: {"tools": TOOLS, "budget": 50, "count": "gpt-4o"},
    tool_costs: {"tools": TOOLS, "count": "gpt-4o"},
    batch.run: {"source": "rows.jsonl", "output": "out.jsonl", **BATCH},
}
EVERY_WRONG = [
    *WRONG,
    "",
    [],
    {},
    float("nan"),
    [[]],
    {"a": {}},
    "\ud800",
    ["\ud800"],
    "\0",
    [("a", "b")],
    type,
]
OPTIONS_OF_A_RUN = {"policy", "decisions", "shard_size", "workers", "address", "query", "budget", "separator"}


@pytest.mark.parametrize("call", VALID, ids=lambda call: call.__name__)
def test_every_parameter_of_a_public_call_refuses_wrong_values_by_a_typed_error(
    call: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("def f():\n    return 1\n", "utf-8")
    Path("rows.jsonl").write_text('{"text": "a"}\n', "utf-8")
    call(**VALID[call])
    parameters = [
        it.name for it in signature(call).parameters.values() if it.kind is not Parameter.VAR_KEYWORD
    ]
    refused = 0
    for name in {*parameters, *VALID[call], *(OPTIONS_OF_A_RUN if call is batch.run else ())}:
        for value in EVERY_WRONG:
            try:
                call(**{**VALID[call], name: value})
            except TokenboxError:
                refused += 1
    assert refused > len(parameters)


class Tensor:
    """A number of torch, as a loop over a tensor gives them."""

    def item(self) -> float:
        return 0.5


@pytest.mark.parametrize("half", [np.float32(0.5), np.float16(0.5), np.float64(0.5), np.array(0.5), Tensor()])
def test_numbers_of_other_libraries_are_numbers(half: Any) -> None:  # noqa: ANN401  # any library's
    assert tokenbox.Section("a", "x", grow=half) == tokenbox.Section("a", "x", grow=0.5)
    chunks = [{"text": "one", "score": half}, {"text": "two", "score": 0.75}]
    assert tokenbox.select(chunks, 3, tokenizer="utf8-bytes").shown == (1,)
    given = [Chunk("one", score=half), Chunk("two", score=2)]
    assert tokenbox.select(given, 3, tokenizer="utf8-bytes").shown == (1,)
    scored = tokenbox.select(["one", "two"], 3, "q", scorer=lambda *_: [half, 0.75], tokenizer="utf8-bytes")
    assert scored.shown == (1,)
    fitted = tokenbox.fit(MESSAGES * 9, 70, "gpt-4o", low_water=half)
    assert fitted.total == tokenbox.fit(MESSAGES * 9, 70, "gpt-4o", low_water=0.5).total


def test_several_numbers_are_not_one() -> None:
    several: Any = np.array([0.5, 0.7])
    with pytest.raises(TokenboxError):
        tokenbox.fit(MESSAGES, 100, "gpt-4o", low_water=several)
    with pytest.raises(TokenboxError):
        tokenbox.fit(MESSAGES, 100, "gpt-4o", query=several)


def test_a_message_has_no_address_of_an_object() -> None:
    with pytest.raises(TokenboxError, match="not a value of type object"):
        tokenbox.layout(SECTIONS, object(), "o200k_base")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16])
def test_integers_of_numpy_are_integers(kind: Callable[[int], Any]) -> None:
    wide = tokenbox.layout(SECTIONS, 100, "o200k_base")
    assert tokenbox.layout(SECTIONS, kind(100), "o200k_base") == wide
    assert tokenbox.layout(SECTIONS, kind(100), "o200k_base").digest == wide.digest
    assert tokenbox.layout(SECTIONS, 100, lambda text: kind(len(text))).to_dict()["total"] == 13
    assert tokenbox.render_blocks(BLOCKS, "o200k_base", kind(100)).budget.__class__ is int
    assert truncate("a b c", kind(2), get("o200k_base")) == "a b"
    assert TextIndex("a b c", get("o200k_base")).longest_prefix(kind(2)) == 3
    section = tokenbox.Section("a", "x", priority=kind(5), min=kind(1), grow=kind(2), shrink=kind(3))
    assert section == tokenbox.Section("a", "x", priority=5, min=1, grow=2, shrink=3)
    assert {getattr(section, name).__class__ for name in ("priority", "min", "grow", "shrink")} == {int}
    image = {"type": "image_url", "image_url": {"url": "u"}}
    message = {"role": "user", "content": [image | {"tokens": kind(5)}]}
    declared = tokenbox.count([message], "gpt-4o", media_tokens="declared")
    assert declared == tokenbox.count([message], "gpt-4o", media_tokens=lambda _: kind(5))
    ids = {"model": "gpt-4o", "prompt": [kind(1), kind(2)]}
    assert tokenbox.count(ids).total == 2
    assert ctx.enforce("gpt-4o", ["text"], max_ctx=kind(100), tokenizer="o200k_base").ok


def places(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401  # JSON
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [so_far, *(place for key, item in inner for place in places(item, (*so_far, key)))]


def with_value(value: Any, place: tuple[Any, ...], other: Any) -> Any:  # noqa: ANN401  # JSON
    if not place:
        return other
    changed = value.copy()
    changed[place[0]] = with_value(value[place[0]], place[1:], other)
    return changed


def test_a_wrong_value_anywhere_in_a_request_is_a_typed_error_or_is_right() -> None:
    """Also by `fit`, which writes down the tools that it was given."""
    wrong = [*WRONG, None, {1: 2}, range(3), float("nan"), 10**400, [[]], {"type": None}, {"type": "text"}]
    refused = 0
    for seed in range(400):
        chance = random.Random(seed)
        body = request(seed)
        made = with_value(body, chance.choice(places(body)), chance.choice(wrong))
        parts: dict[str, Any] = made if isinstance(made, dict) else {"messages": made}
        messages: Any = parts.get("messages")
        calls: tuple[Callable[[], object], ...] = (
            partial(tokenbox.count, made, "gpt-4o"),
            partial(tokenbox.fit, messages, 10**6, model="gpt-4o", tools=parts.get("tools")),
        )
        for call in calls:
            try:
                call()
            except TokenboxError:
                refused += 1
    assert refused > 100
    hi = [{"role": "user", "content": "hi"}]
    assert tokenbox.count({"messages": hi, "temperature": {1: 2}}, "gpt-4o").total > 0
    tools = [{"type": range(3), "function": {"name": "f"}}]
    assert tokenbox.fit(hi, 300, model="gpt-4o", tools=tools).total > 0


def test_truth_is_no_integer() -> None:
    values: list[Any] = [True, np.True_]
    for value in values:
        with pytest.raises(TokenboxError):
            tokenbox.layout(SECTIONS, value, "o200k_base")


untyped: Any = tokenbox


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda: untyped.layout(SECTIONS, "8k"), "not '8k'. Write 8000."),
        (lambda: untyped.fit(MESSAGES, 1e3), "not 1000.0. Write 1000."),
        (lambda: untyped.pack(".", "8,000"), "not '8,000'. Write 8000."),
        (lambda: untyped.pack(".", 8000, redact=None), "redact is True or False, not None."),
        (lambda: untyped.pack(".", 8000, redact=0), "redact is True or False, not 0."),
        (lambda: untyped.pack(".", 8000, history="no"), "history is True or False, not 'no'."),
        (lambda: untyped.pack(".", 8000, line_numbers="off"), "line_numbers is True or False, not 'off'."),
        (lambda: untyped.layout(SECTIONS, "010"), "not '010'."),  # it may be meant as octal
        (lambda: untyped.layout("prompt.toml", 10), "or read a file: tokenbox.documents.read_document."),
        (lambda: untyped.fit("hi", 10), 'not str. Give [{"role": "user", "content": "hi"}].'),
        (lambda: untyped.fit(MESSAGES[0], 10), 'not dict. Give [{"role": "user", "content": "hi"}].'),
        (lambda: untyped.fit(MESSAGES, 100, low_water=70), "not 70. For 70 %, write 0.7."),
        (lambda: get("tokenizer.json"), "For a vocabulary file, write file:tokenizer.json."),
        (lambda: tokenbox.documents.read_document(".."), "is a folder, not a file."),
    ],
)
def test_a_first_mistake_in_python_names_what_to_write(call: Callable[[], object], answer: str) -> None:
    with pytest.raises(TokenboxError) as caught:
        call()
    assert caught.value.message.endswith(answer)


def test_what_goes_with_messages_is_not_dropped_beside_a_text() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    with pytest.raises(TokenboxError, match="go with messages"):
        tokenbox.count("hi", "gpt-4o", tools=tools)
    with pytest.raises(TokenboxError, match="go with messages"):
        tokenbox.count("hi", "gpt-4o", response_format={"type": "json_object"})
    form: Any = "json_object"
    with pytest.raises(TokenboxError, match="response_format is a mapping"):
        tokenbox.count(MESSAGES, "gpt-4o", response_format=form)
    with pytest.raises(TokenboxError, match="response_format is a mapping"):
        tokenbox.fit(MESSAGES, 50, model="gpt-4o", response_format=form)
