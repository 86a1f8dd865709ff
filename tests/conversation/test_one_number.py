"""One number: every surface gives a request the same figure with the same mark.

A surface is one line of ``SURFACES``.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import tokenbox
from tests.cli.transcript import CommandLine
from tests.conversation import requests
from tests.effort import examples
from tests.gateway.attacks import mutations
from tests.llama import model as models
from tests.sdk_values import Maker
from tokenbox import api, counters, ctx, tokenizers
from tokenbox.compose.layout import Layout
from tokenbox.compose.lower_bound import BYTES_PER_TOKEN
from tokenbox.compose.sections import checked_sections
from tokenbox.config import load
from tokenbox.content.items import read_items
from tokenbox.content.message import InvalidMessage
from tokenbox.content.parts import as_plain, texts_in
from tokenbox.content.request import INPUT_KEYS, costly_fields, read_request, read_tools
from tokenbox.conversation import Conversation
from tokenbox.conversation.pieces import open_session
from tokenbox.conversation.published import openai_format
from tokenbox.documents import LayoutDocument
from tokenbox.gateway.calls import read_call
from tokenbox.gateway.local_counts import count_locally
from tokenbox.gateway.models import use_of
from tokenbox.gateway.protocols import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Protocol
from tokenbox.gateway.refusals import Refusal
from tokenbox.gateway.settings import ModelSettings, RequestLimits
from tokenbox.models import Counting, counters_for
from tokenbox.shell.models import CurrentCounter, Models

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenbox.compose.requests import Counts
    from tokenbox.models import ModelUse

MODELS = ("gpt-4o", "gpt-5", "gpt-4", "llama-3.1-8b", "claude-sonnet-4-5", "model-of-nobody")
MEASURED = ("gpt-4o", "gpt-4")  # chats of texts are counted exactly without asking the server
REQUESTS = 10_000
Figure = tuple[int, bool]


def request(seed: int) -> dict[str, Any]:
    """A request with everything that people send: short ones, for there are many."""
    chance = random.Random(seed)
    body = requests.request(seed)
    messages = [dict(message) for message in body["messages"][:12]]
    while messages and messages[-1].get("tool_calls"):
        messages.pop()
    messages = messages or [{"role": "user", "content": "hi"}]
    for message in messages:
        kind = chance.random()
        if message["role"] == "user" and kind < 0.1:
            message["name"] = chance.choice(("ada", "läufer", "a b"))
        if message["role"] == "assistant" and kind < 0.2:
            message[chance.choice(("reasoning_content", "reasoning"))] = requests.text(chance)
        if message["role"] == "user" and isinstance(message["content"], str) and kind > 0.95:
            image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
            message["content"] = [{"type": "text", "text": message["content"]}, image]
    if chance.random() < 0.1:
        messages.insert(0, {"role": "developer", "content": requests.text(chance)})
    if chance.random() < 0.1:
        messages.append({"role": "assistant", "content": chance.choice(("", "Sure, "))})
    made = {**body, "messages": messages}
    if chance.random() < 0.1:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        made["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    if chance.random() < 0.3:
        made["temperature"] = 0.5
    if chance.random() < 0.05:
        made["an_unknown_field"] = requests.value(chance)
    return made


def beside(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request that are sent beside messages and tools."""
    return {key: value for key, value in body.items() if key not in ("messages", "tools")}


def figure(count: tokenbox.Count) -> Figure:
    return count.total, count.exact


def whole(body: dict[str, Any]) -> dict[str, Any]:
    return body


def messages_and_tools(body: dict[str, Any]) -> dict[str, Any]:
    """All that some surfaces take."""
    return {key: body[key] for key in ("messages", "tools") if key in body}


def by_its_own_model(body: dict[str, Any], model: str) -> Figure:
    return figure(tokenbox.count({**body, "model": model}))


def by_counter(body: dict[str, Any], model: str) -> Figure:
    read = read_request(body["messages"], tools=body.get("tools"), fields=beside(body))
    return figure(counters.request_counter(model).count_request(read))


def by_session(body: dict[str, Any], model: str) -> Figure:
    """As it grows and shrinks: what does not belong is added and leaves again."""
    session = open_session(counters.request_counter(model))
    for number, item in enumerate(read_items(body["messages"])):
        session.add(2 * number, item)
        session.add(2 * number + 1, item)
        session.remove([2 * number + 1])
    session.frame((), read_tools(body.get("tools"))[0], costly_fields(beside(body)))
    return figure(session.count())


def by_ctx(body: dict[str, Any], model: str) -> Figure | None:
    """Where a vocabulary of the package counts: it is enabled for the test."""
    if not model.startswith("gpt"):
        return None
    found = ctx.estimate(model, body["messages"], tools=body.get("tools") or None)
    return found.tokens_in, found.exact


def by_ctx_whole(body: dict[str, Any], model: str) -> Figure | None:
    if not model.startswith("gpt"):
        return None
    return figure(ctx.enforce(model, body, max_ctx=10**7).why.verdict.count)


@cache
def shell() -> Models:
    """A shell's models, of a server that is never asked."""
    return Models(load(env={"TOKENBOX_USER_CONFIG": ""}), {}, "https://api.openai.com")


def by_shell(body: dict[str, Any], model: str) -> Figure:
    shell().use(model)
    return figure(CurrentCounter(shell()).count_request(read_request(body)))


@cache
def served(model: str, *, at_openai: bool = True) -> ModelUse:
    """How the gateway counts for a model of which its upstream says nothing."""
    return use_of(model, ModelSettings(), ModelSettings(), None, None, is_public=True, at_openai=at_openai)


def by_gateway(body: dict[str, Any], model: str, *, at_openai: bool = True) -> Figure:
    data = json.dumps({**body, "model": model}).encode()
    return figure(count_locally(read_call(CHAT, data, RequestLimits()), served(model, at_openai=at_openai)))


# What a surface says of a request (None: nothing), and what of a request it takes.
Ask = Callable[[dict[str, Any], str], Figure | None]
Shape = Callable[[dict[str, Any]], dict[str, Any]]
SURFACES: dict[str, tuple[Ask, Shape]] = {
    "a request with its model": (by_its_own_model, whole),
    "messages and fields": (by_counter, whole),
    "a session": (by_session, whole),
    "ctx.estimate": (by_ctx, messages_and_tools),
    "ctx.enforce": (by_ctx_whole, whole),
    "shell": (by_shell, messages_and_tools),
    "gateway": (by_gateway, whole),
}


@pytest.mark.slow
@pytest.mark.parametrize("at_openai", [True, False])
@pytest.mark.parametrize("model", MODELS)
def test_another_server_has_one_number_too(model: str, *, at_openai: bool) -> None:
    """The gateway counts as the library does for the same server: also attacks, with text in odd places."""
    counter = counters_for(model, Counting(at_openai=at_openai)).counter
    use = served(model, at_openai=at_openai)
    calls = [(CHAT, request(seed)) for seed in range(0, 1_000, 10)]
    calls += [(CHAT, {"messages": [{"role": "user", "content": run * 1_000}]}) for run in (" " * 80, "\t")]
    calls += [(PROTOCOLS[attack.path], attack.body) for attack in islice(mutations(), 0, None, 199)]
    compared = 0
    for number, (protocol, body) in enumerate(calls):
        try:
            call = read_call(protocol, json.dumps({**body, "model": model}).encode(), RequestLimits())
            found = count_locally(call, use)
        except (Refusal, InvalidMessage):
            continue
        assert found == counter.count_request(read_request(call.body, api=protocol.api, strict=False)), number
        assert at_openai or not found.exact
        compared += 1
    assert compared > 150


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "text-embedding-3-small"])
def test_a_public_name_proves_no_vocabulary_at_another_server(model: str) -> None:
    """There runs of spaces may be a token for each byte, and a server may add its own begin to a prompt."""
    spaces = read_request([{"role": "user", "content": " " * 5_000}])
    own, other = (counters_for(model, Counting(at_openai=at_openai)) for at_openai in (True, False))
    assert own.counter.count_request(spaces).total < 5_000 // BYTES_PER_TOKEN
    count = other.counter.count_request(spaces)
    assert not count.exact
    assert (count.total >= 5_000 // BYTES_PER_TOKEN, count.at_most >= 5_000) == (True, True)
    assert not other.counter.count_request(read_request({"prompt": "hello"})).exact
    assert other.tokenizer is not None
    assert not other.tokenizer.identity.exact
    # The tokenizer that the user names is the server's: no name of a model stands for it.
    named = counters_for("x", Counting(named="o200k_base", at_openai=False))
    assert named.counter.count_request(spaces) == tokenbox.count(
        [{"role": "user", "content": " " * 5_000}], tokenizer="o200k_base"
    )


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "model-of-nobody"])
@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "refusal": "word " * 999}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "x": "word " * 999}]}]},
        {"messages": [{"role": "user", "content": "hi"}], "system": [{"type": "word " * 999, "text": "hi"}]},
        {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "f", "input_schema": {}, "input_examples": [{"a": "word " * 999}]}],
        },
        {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "f", "input_schema": {}, "parameters": {"a": "word " * 999}}],
        },
        {"prompt": "hi", "tools": "word " * 999},
    ],
    ids=["a refusal", "a part", "a system prompt", "a tool", "a tool of two schemas", "a field of chats"],
)
def test_text_in_any_place_costs_what_it_is(body: dict[str, Any], model: str) -> None:
    count = tokenbox.count(body, model)
    assert not count.exact
    assert 999 < count.total <= count.at_most


def test_a_field_that_a_template_does_not_know_is_counted(model: models.Model) -> None:
    name = f"file:{model.gguf}"
    fields = {"steering": "word " * 999}
    count = tokenbox.count({"messages": HI, **fields}, tokenizer=name)
    assert (count.exact, count.total > 999) == (False, True)
    assert tokenbox.fit(HI, None, name, fields=fields).count == count


@pytest.fixture(autouse=True)
def _baseline() -> Iterator[None]:
    tokenizers.enable_baseline("gpt-bpe")
    yield
    tokenizers.disable_all_baselines()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_surface_gives_the_same_number(model: str) -> None:
    """All surfaces see a request together: it is made, and counted by the library, once for all of them."""
    asked: Counter[str] = Counter()
    marks = set()
    for seed in range(MODELS.index(model), REQUESTS, len(MODELS)):
        body = request(seed)
        shapes: tuple[Shape, ...] = (whole, messages_and_tools)
        expected = {shape: figure(tokenbox.count(shape(body), model)) for shape in shapes}
        for surface, (ask, shape) in SURFACES.items():
            found = ask(shape(body), model)
            if found is not None:
                assert found == expected[shape], (seed, surface)
                asked[surface] += 1
                marks.add(found[1])
    assert marks == ({True, False} if model in MEASURED else {False})
    assert asked.keys() == SURFACES.keys() - (
        set() if model.startswith("gpt") else {"ctx.estimate", "ctx.enforce"}
    )
    assert len(set(asked.values())) == 1


def plain(seed: int) -> list[dict[str, Any]]:
    """Messages without what no conversation can hold beside them."""
    messages: list[dict[str, Any]] = request(seed)["messages"]
    return messages


@pytest.mark.slow
def test_a_conversation_and_fit_give_it_too() -> None:
    for seed in range(0, REQUESTS, 25):  # every model in turn
        model, messages = MODELS[seed % len(MODELS)], plain(seed)
        tools = request(seed).get("tools")
        fitted = tokenbox.fit(messages, None, model=model, tools=tools)
        expected = tokenbox.count(fitted.messages, model, tools=tools)
        assert (fitted.total, fitted.exact) == figure(expected), seed
        conversation = Conversation("", counters.request_counter(model), tools=tools)
        conversation.extend(messages)
        sent = tokenbox.count(conversation.messages, model, tools=tools)
        assert (conversation.estimate_tokens(), conversation.exact) == figure(sent), seed


def test_the_command_line_gives_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = CommandLine(monkeypatch, tmp_path)
    for seed in range(0, REQUESTS, 505):
        model, body = MODELS[seed % len(MODELS)], request(seed)
        result = command("count", "--json", "--model", model, "-", stdin=json.dumps(body).encode())
        assert json.loads(result.out)["files"][0]["count"] == tokenbox.count(body, model).to_dict(), seed


@pytest.mark.parametrize("kind", ["gguf", "folder", "tokenizer_json"])
def test_a_models_own_files_count_on_every_surface(kind: str, model: models.Model) -> None:
    """With their chat template, by whatever name they are given."""
    name = f"file:{getattr(model, kind)}"
    messages = [{"role": "system", "content": "You know the sea."}, *HI]
    expected = tokenbox.count(messages, tokenizer=name)
    assert expected.by == "template"
    assert tokenbox.fit(messages, None, name).count == expected
    assert ctx.estimate(None, messages, tokenizer=name).count == expected
    conversation = Conversation("", name)
    conversation.extend(messages)
    assert (conversation.estimate_tokens(), conversation.exact) == figure(expected)
    sections = [{"id": one["role"], "role": one["role"], "content": one["content"]} for one in messages]
    laid_out = tokenbox.layout(sections, 999, name)
    assert laid_out.count == expected
    document = LayoutDocument(tuple(checked_sections(sections)), 999, name)
    assert document.layout().count == document.layout(tokenizer=name).count == expected
    assert [one.count for one in document.whatif([999]) if isinstance(one, Layout)] == [expected]


@pytest.mark.parametrize("kind", ["gguf", "folder", "tokenizer_json"])
def test_a_models_own_files_count_at_the_command_line(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = f"file:{getattr(models.write(tmp_path, models.TOOLS), kind)}"
    messages = [{"role": "system", "content": "You know the sea."}, *HI]
    expected = tokenbox.count(messages, tokenizer=name)
    command = CommandLine(monkeypatch, tmp_path)
    (tmp_path / "chat.json").write_text(json.dumps(messages))
    said = command("count", "--json", "-t", name, "chat.json")
    assert json.loads(said.out)["files"][0]["count"] == expected.to_dict()
    # A model's name, which a request may give, opens no file.
    refused = command("count", "-m", name, "chat.json")
    assert (refused.status, "names a file, not a model" in refused.err) == (2, True)
    sections = [{"id": one["role"], "role": one["role"], "content": one["content"]} for one in messages]
    relative = name.replace(f"{tmp_path}/", "")
    (tmp_path / "prompt.json").write_text(
        json.dumps({"budget": 999, "tokenizer": relative, "sections": sections})
    )
    laid_out = command("layout", "--json", "prompt.json")
    assert json.loads(laid_out.out)["count"] == expected.to_dict()


@pytest.mark.parametrize("tokenizer", ["o200k_base", "two-vocabularies", "heuristic", "chars4"])
def test_a_text_has_one_number(tokenizer: str) -> None:
    text = "Läufer 走る 🏃" * 9
    expected = tokenbox.count(text, tokenizer=tokenizer)
    alone = [tokenbox.count(one, tokenizer=tokenizer) for one in (text, "", "a")]
    assert api.count_texts([text, "", "a"], tokenizer=tokenizer) == alone
    assert ctx.estimate(None, [text], tokenizer=tokenizer).count == expected
    assert expected.at_most >= (expected.total if expected.exact else len(text.encode()))


SCHEMA = {"type": "object", "properties": {"town": {"type": "string", "description": "Where it is."}}}
CALLED = [
    {"type": "message", "role": "user", "content": "How warm is it?"},
    {"type": "function_call", "call_id": "c1", "name": "warmth", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "14 degrees"},
]
USED = [
    {"role": "user", "content": "How warm is it?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "warmth", "input": {}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "14 degrees"},
            {"type": "text", "text": "And now?"},
        ],
    },
]
HI = [{"role": "user", "content": "hi"}]
WHOLE: dict[str, dict[str, Any]] = {
    "a form of the answer": {
        "messages": HI,
        "response_format": {"type": "json_schema", "json_schema": SCHEMA},
    },
    "legacy functions": {"messages": HI, "functions": [{"name": "f", "parameters": SCHEMA}]},
    "functions beside tools": {
        "messages": HI,
        "tools": [{"type": "function", "function": {"name": "g"}}],
        "functions": [{"name": "f", "parameters": SCHEMA}],
    },
    "Anthropic's system prompt": {
        "system": [{"type": "text", "text": "You know the sea."}],
        "messages": USED,
    },
    "Anthropic's tools": {"messages": USED, "tools": [{"name": "warmth", "input_schema": SCHEMA}]},
    "items and instructions": {"instructions": "You know the sea.", "input": CALLED},
    "a text and instructions": {"instructions": "You know the sea.", "input": "How warm is it?"},
    "instructions alone": {"instructions": "You know the sea."},
    "a prompt that the server keeps": {"prompt": {"id": "pmpt_1", "variables": {"sea": "the North Sea"}}},
    "an answer that the server keeps": {"previous_response_id": "resp_1"},
    "a field of tomorrow": {"messages": HI, "steering": "Speak of the sea."},
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "model-of-nobody"])
def test_a_whole_request_is_counted_whole_by_every_question(
    name: str, model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A system prompt, functions or a form of the answer beside the messages cost what they cost."""
    body, counter = WHOLE[name], counters.request_counter(model)
    expected = tokenbox.count(body, model)
    assert not expected.exact
    assert ctx.estimate(model, body, tokenizer=counter).count == expected
    assert ctx.enforce(model, body, tokenizer=counter, max_ctx=10**6).why.verdict.count == expected
    plan = ctx.pack(body, 10**6, 0, model=model, tokenizer=counter)
    assert plan.count == expected
    assert not ctx.enforce(
        model, body, max_tokens_request=0, tokenizer=counter, max_ctx=expected.total - 1
    ).ok
    if model != "model-of-nobody":
        command = CommandLine(monkeypatch, tmp_path)
        said = command("estimate", "--json", "-t", model, "--messages", "-", stdin=json.dumps(body).encode())
        found = json.loads(said.out)
        assert (found["tokens_in"], found["exact"], found["at_most"]) == (*figure(expected), expected.at_most)


PARAMETERS = {
    CHAT: "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
    RESPONSES: "openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming",
    MESSAGES: "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
}


@pytest.mark.slow  # the SDKs take seconds to load
@pytest.mark.parametrize("protocol", PARAMETERS, ids=lambda protocol: protocol.api.value)
def test_whatever_the_sdks_can_send_has_one_number(protocol: Protocol) -> None:
    """Requests with any of the parameters. The gateway refuses some, such as one of an unknown price."""
    model = "claude-sonnet-4-5" if protocol is MESSAGES else "gpt-4o"
    counter, kind = counters.request_counter(model), resolve_name(PARAMETERS[protocol])
    passed, seeds = 0, examples(100)
    for seed in range(seeds):
        body = as_plain(Maker(seed).value(kind)) | {"model": model}
        for message in body.get("messages", ()):
            message.setdefault("content", None)
        if all(body.get(key) is None for key in INPUT_KEYS):
            continue
        expected = tokenbox.count(body)
        assert ctx.enforce(model, body, max_ctx=10**9, tokenizer=counter).why.verdict.count == expected, seed
        try:
            call = read_call(protocol, json.dumps(body).encode(), RequestLimits())
        except Refusal:
            continue
        assert figure(count_locally(call, served(model))) == figure(expected), seed
        passed += 1
    assert passed > seeds // 5


@pytest.mark.parametrize("items", [CALLED, USED])
def test_chunks_are_the_items_that_were_given(items: list[dict[str, Any]]) -> None:
    """An item is one chunk, however many messages it stands for, and is sent as it was given."""
    expected = tokenbox.count(items, "gpt-4o")
    assert len(ctx.estimate("gpt-4o", items).per_chunk) == len(items)
    plan = ctx.pack(items, 10**6, 0, model="gpt-4o")
    assert (plan.count, plan.messages) == (expected, items)
    assert json.loads(plan.text) == items


@pytest.mark.parametrize("name", ["legacy functions", "functions beside tools"])
def test_functions_among_the_fields_are_tools(name: str) -> None:
    body = WHOLE[name]
    tools, fields = body.get("tools"), {"functions": body["functions"]}
    expected = figure(tokenbox.count(body, "gpt-4o"))
    fitted = tokenbox.fit(HI, None, model="gpt-4o", tools=tools, fields=fields)
    assert (fitted.total, fitted.exact) == expected
    conversation = Conversation("", "gpt-4o", tools=tools, fields=fields)
    conversation.extend(HI)
    assert (conversation.estimate_tokens(), conversation.exact) == expected


class Forecast(BaseModel):
    town: str


class ToolObject:
    name, description, args_schema = "forecast", "Says how warm it will be.", Forecast


def test_objects_anywhere_in_a_request_are_sent_as_their_schemas() -> None:
    """A class as the form of the answer, and objects of tools: in options, among the fields, in a request."""
    objects: dict[str, Any] = {"functions": [ToolObject()], "response_format": Forecast}
    expected = tokenbox.count(HI, "gpt-4o", tools=[ToolObject()], response_format=Forecast)
    body: dict[str, Any] = {"messages": HI, **objects}
    assert tokenbox.count(body, "gpt-4o") == expected
    assert ctx.enforce("gpt-4o", body, max_ctx=999).why.verdict.count == expected
    conversation = Conversation("", "gpt-4o", fields=objects)
    conversation.extend(HI)
    assert (conversation.estimate_tokens(), conversation.exact) == figure(expected)
    evidence: list[Any] = []
    assert tokenbox.fit(HI, None, model="gpt-4o", fields=objects, proof=evidence.append).count == expected
    # What a replay needs is in the evidence, not in the program that made it.
    assert json.loads(json.dumps(evidence[0].arguments["fields"]))["functions"][0]["name"] == "forecast"


@pytest.mark.parametrize(
    "fields",
    [
        {"system": "You know the sea."},
        {"system": [{"type": "text", "text": "You know", "cache_control": {"type": "ephemeral"}}]},
        {"instructions": "You know the sea.", "text": {"verbosity": "low"}},
        {"system": ""},
        {"system": [{"type": "text", "text": ""}]},
        {"instructions": "", "text": {"verbosity": "low"}},
    ],
)
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", None])
def test_a_system_prompt_among_the_fields_is_one(fields: dict[str, Any], model: str | None) -> None:
    key = "input" if "instructions" in fields else "messages"
    tokenizer = None if model else "o200k_base"
    count = tokenbox.count({key: HI, **fields}, model, tokenizer=tokenizer)
    fitted = tokenbox.fit(HI, None, tokenizer, model=model, fields=fields)
    assert fitted.count == count
    conversation = Conversation("", model or tokenizer, fields=fields)
    conversation.extend(HI)
    assert (conversation.estimate_tokens(), conversation.exact) == figure(count)
    read = read_request(HI, fields=fields)
    assert figure(counters.request_counter(model, tokenizer).count_request(read)) == figure(count)


FLOORS: dict[str, tuple[Protocol, dict[str, Any]]] = {
    "a run of spaces": (CHAT, {"messages": [{"role": "user", "content": " " * 5_000}]}),
    "a document that is a text": (
        MESSAGES,
        {
            "system": "You know the sea.",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document", "source": {"type": "text", "data": "High tide at noon. " * 900}},
                        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
                    ],
                }
            ],
        },
    ),
    "reasoning that is encrypted": (
        RESPONSES,
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAAx7" * 99}, *HI]},
    ),
}


@pytest.mark.parametrize("name", FLOORS)
@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "model-of-nobody"])
def test_texts_that_a_chat_message_does_not_show_are_counted_by_library_and_gateway(
    name: str, model: str
) -> None:
    protocol, body = FLOORS[name]
    expected = tokenbox.count(body, model)
    call = read_call(protocol, json.dumps({**body, "model": model}).encode(), RequestLimits())
    assert count_locally(call, served(model)) == expected
    messages: list[dict[str, Any]] = body.get("messages") or body["input"]
    fitted = tokenbox.fit(messages, None, model=model)
    assert fitted.count == tokenbox.count(messages, model)
    if not expected.exact and model != "gpt-4o":
        assert expected.total >= sum(len(text) for text in texts_in(messages)) // 8


@pytest.mark.parametrize("named", ["gpt-4o", openai_format("gpt-4o"), "o200k_base", len])
def test_texts_without_markers_are_counted_alike(named: Counts) -> None:
    expected = tokenbox.count(HI, tokenizer=named, markers=False).total
    assert tokenbox.fit(HI, 1000, named, markers=False).total == expected
    conversation = tokenbox.Conversation("", named, markers=False)
    conversation.extend(HI)
    assert conversation.estimate_tokens() == expected
