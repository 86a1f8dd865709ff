"""Chat messages as a request: counted, packed in whole exchanges, refused with remedies that work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tokenbox import ContextCriticalOverflow, Message, ctx, tokenizers
from tokenbox.compose.requests import By, Count
from tokenbox.content.message import InvalidMessage
from tokenbox.conversation.pieces import CountsMessages
from tokenbox.ctx import CutChunks, InvalidChunks, LargerWindow, LowerMaxTokens, StrategyFailed
from tokenbox.tokenizers import TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.content.request import Request

SYSTEM = {"role": "system", "content": "s" * 10}


def turn(n: int, size: int = 20) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"{n}" * size},
        {"role": "assistant", "content": f"{n}" * size},
    ]


CHAT = [SYSTEM, *turn(1), *turn(2), *turn(3), {"role": "user", "content": "last" * 5}]


class Format(CountsMessages):
    """A chat format: four tokens around each message, three that prime the reply, ten for each tool."""

    identity = TokenizerIdentity("format", "1", "0" * 64, exact=True)

    def count_request(self, request: Request) -> Count:
        total = sum(self.message_sizes(request.messages)) + 10 * len(request.tools) + 3
        return Count(total, exact=True, at_most=total, by=By.TEMPLATE)

    def message_sizes(self, messages: Sequence[Message]) -> list[int]:
        return [len(message.counted_text) + 4 for message in messages]


def test_a_tokenizer_counts_the_markers_generously_and_that_is_an_estimate() -> None:
    found = ctx.estimate("any", CHAT, tokenizer="utf8-bytes")
    texts = sum(len(message["content"]) for message in CHAT)
    assert found.tokens_in >= sum(found.per_chunk) >= texts + 4 * len(CHAT)
    assert found.count.by is By.MARKERS
    assert not found.exact, "what a server puts around messages is not known"
    assert found.count.at_most > found.tokens_in
    assert found.ids[:2] == ("message[0]", "message[1]")
    same = ctx.estimate("any", [Message.of(message) for message in CHAT], tokenizer="utf8-bytes")
    assert same == found


def test_a_chat_format_counts_the_whole_request() -> None:
    found = ctx.estimate("any", CHAT, tokenizer=Format())
    assert found.exact
    assert found.tokens_in == 150 + 8 * 4 + 3
    tools = [{"type": "function", "function": {"name": "look"}}]
    assert ctx.estimate("any", CHAT, tokenizer=Format(), tools=tools).tokens_in == found.tokens_in + 10
    bare = ctx.estimate("any", CHAT, tokenizer="utf8-bytes").tokens_in
    assert ctx.estimate("any", CHAT, tokenizer="utf8-bytes", tools=tools).tokens_in > bare
    with pytest.raises(InvalidChunks, match="chat format"):
        ctx.estimate("any", ["a text"], tokenizer=Format())
    with pytest.raises(InvalidChunks, match="tools go with messages"):
        ctx.estimate("any", ["a text"], tokenizer="utf8-bytes", tools=tools)
    with pytest.raises(InvalidMessage, match="tools are a list"):
        ctx.estimate("any", CHAT, tokenizer="utf8-bytes", tools="abc")


def test_messages_of_every_api_are_chunks() -> None:
    responses = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    anthropic = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    plain = [{"role": "user", "content": "hello"}]
    sizes = [
        ctx.estimate("any", chat, tokenizer=Format()).tokens_in for chat in (responses, anthropic, plain)
    ]
    assert sizes == [12, 12, 12]


@pytest.mark.parametrize("counter", ["utf8-bytes", Format()])
def test_every_remedy_of_a_chat_works(counter: Any) -> None:  # noqa: ANN401
    window = 160 if isinstance(counter, Format) else 360

    def ask(messages: list[Any], reserve: int = 30, max_ctx: int = window) -> Any:  # noqa: ANN401
        return ctx.enforce("any", messages, "text", reserve, tokenizer=counter, max_ctx=max_ctx)

    verdict = ask(CHAT)
    assert not verdict.ok
    kinds = []
    for remedy in verdict.plan:
        kinds.append(type(remedy))
        if isinstance(remedy, LowerMaxTokens):
            assert ask(CHAT, remedy.max_tokens).ok
            assert not ask(CHAT, remedy.max_tokens + 1).ok
        elif isinstance(remedy, LargerWindow):
            assert ask(CHAT, max_ctx=remedy.max_ctx).ok
            assert not ask(CHAT, max_ctx=remedy.max_ctx - 1).ok
        else:
            left = remedy.plan.messages
            assert ask(left).ok
            assert left[0] == SYSTEM
            gone = [cut.index for cut in remedy.cuts]
            assert gone == list(range(1, 1 + len(gone))), "the oldest exchanges leave"
            back = [SYSTEM, *CHAT[gone[-2] :]]
            assert not ask(back).ok, "with the last exchange that left, it is refused"
    assert kinds[-2:] == [CutChunks, LargerWindow]


def test_a_plan_of_a_chat_says_what_a_summary_may_be() -> None:
    for counter, window in (("utf8-bytes", 320), (Format(), 165)):
        plan = ctx.pack(CHAT, window, 0, 0, tokenizer=counter)
        assert plan.strategy == "window"
        assert [one.decision.value for one in plan.dropped] == ["evicted"] * len(plan.dropped)
        assert all(one.why for one in plan.dropped)
        (op,) = plan.summary_ops
        assert op.chunks == tuple(one.id for one in plan.dropped)
        summary = {"role": "system", "content": "x" * op.at_most}
        told = [plan.messages[0], summary, *plan.messages[1:]]
        again = ctx.pack(told, window, 0, 0, tokenizer=counter)
        assert again.dropped == ()
        assert '"role":"system"' in plan.text


def test_a_call_and_its_result_leave_together() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    chat = [
        *turn(1),
        {"role": "user", "content": "look it up"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "r" * 50},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
    ]
    for budget in range(90, 400, 3):
        plan = ctx.pack(chat, budget, 0, 0, tokenizer="utf8-bytes")
        kept = {one.index for one in plan.packed}
        assert (3 in kept) == (4 in kept)
        assert 6 in kept
    with pytest.raises(StrategyFailed, match="separated a tool call"):
        ctx.pack(chat, 900, 0, 0, lambda c, b, n: [2, 3, 6], tokenizer="utf8-bytes")  # noqa: ARG005
    chosen = ctx.pack(chat, 900, 0, 0, lambda c, b, n: [2, 3, 4, 6], tokenizer="utf8-bytes")  # noqa: ARG005
    assert [one.index for one in chosen.dropped] == [0, 1, 5]
    with pytest.raises(StrategyFailed, match="left out message"):
        ctx.pack(chat, 900, 0, 0, lambda c, b, n: [0], tokenizer="utf8-bytes")  # noqa: ARG005


def test_what_is_no_chat_is_refused() -> None:
    for bad in ({"role": "robot", "content": "x"}, {"role": "user"}, {"role": 5, "content": "x"}):
        with pytest.raises(InvalidMessage, match=r"messages\[1\]"):
            ctx.estimate("any", [SYSTEM, bad], tokenizer="utf8-bytes")
    with pytest.raises(InvalidChunks, match="several kinds"):
        ctx.estimate("any", [SYSTEM, "text"], tokenizer="utf8-bytes")
    with pytest.raises(ContextCriticalOverflow):
        ctx.pack(CHAT, 29, 0, 0, tokenizer="utf8-bytes")
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    seen = ctx.estimate("any", [image], tokenizer="utf8-bytes")
    assert seen.tokens_in > 1_000, "what an image costs is estimated"
    assert not seen.exact
    image["content"][0]["tokens"] = 0  # type: ignore[index]
    declared = ctx.estimate("any", [image], tokenizer=tokenizers.get("utf8-bytes"))
    assert declared.tokens_in == seen.tokens_in, "and what it says of itself is not believed"


def test_a_model_with_a_published_format_is_counted_by_it() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]
    tokenizers.enable_baseline("gpt-bpe")
    try:
        found = ctx.estimate("gpt-4o", chat)
        newer = ctx.estimate("gpt-5", chat)
        verdict = ctx.enforce("gpt-4o", [*chat, {"role": "user", "content": "hi " * 130_000}])
        tooled = ctx.estimate("gpt-4o", chat, tools=[{"type": "function", "function": {"name": "look"}}])
    finally:
        tokenizers.disable_all_baselines()
    o200k = tokenizers.get("o200k_base").count
    larger = next(one for one in verdict.plan if isinstance(one, LargerWindow))
    assert larger.models, "what is counted by the same rules is named"
    # OpenAI Cookbook: 3 for each message and its fields, 3 for the reply.
    assert found.tokens_in == sum(3 + o200k(m["role"]) + o200k(m["content"]) for m in chat) + 3
    assert found.exact
    assert not newer.exact, "nothing is published for it"
    assert tooled.tokens_in > found.tokens_in
    assert not tooled.exact, "what tools cost is an estimate"
    by_text = ctx.estimate("gpt-4o", chat, tokenizer="o200k_base")
    assert by_text == found, "a vocabulary's name does not switch a known format off"
    other = ctx.estimate("gpt-4o", chat, tokenizer="utf8-bytes")
    assert other.tokens_in > found.tokens_in
    assert not other.exact


@pytest.mark.slow
def test_39_999_short_messages_are_refused() -> None:
    chat = [{"role": "user", "content": "hi"}] * 39_999
    verdict = ctx.enforce("gpt-4o", chat, tokenizer="o200k_base")
    assert not verdict.ok
    assert verdict.tokens_in == 39_999 * 5 + 3
    assert verdict.why.verdict.basis == "exact"


def test_a_plan_tells_the_size_of_a_shortened_result() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    long: list[dict[str, Any]] = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a line of the result\n" * 200},
        {"role": "assistant", "content": "answer"},
        {"role": "user", "content": "last"},
    ]
    plan = ctx.pack(long, 500, 0, tokenizer=Format())
    assert [chunk.decision.value for chunk in plan.packed] == ["kept", "kept", "reduced", "kept", "kept"]
    assert plan.packed[2].why
    assert plan.packed[2].size < plan.total < 500 < plan.packed[2].base_size
    refused = ctx.enforce("any", long, max_tokens_request=0, max_ctx=500, tokenizer=Format())
    (cut,) = (remedy for remedy in refused.plan if isinstance(remedy, CutChunks))
    assert [chunk.id for chunk in cut.cuts] == ["message[2]"]
    assert cut.say.startswith("cut message[2] from 4,207 to 42")
