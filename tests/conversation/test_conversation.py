"""A conversation counts each message once, evicts at the right moment, and loses nothing to a failure."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy
from functools import partial
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tests.llama import model as models
from tokenbox.content.exchanges import Waiting
from tokenbox.content.message import InvalidMessage, Message, UndeclaredCost
from tokenbox.conversation import Conversation as RequestConversation
from tokenbox.conversation import Evicted
from tokenbox.conversation.chat_format import ChatFormat
from tokenbox.conversation.conversation import SUMMARY_HEADING
from tokenbox.conversation.image_costs import MEDIA
from tokenbox.errors import (
    InvalidBudget,
    InvalidContent,
    TokenizerError,
    UnknownTokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Of bare texts, so that sizes are easy to follow; what markers count has its own tests.
Conversation = partial(RequestConversation, markers=False)
CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "three", "tool_call_id": "c"}


def test_without_a_counter_it_is_the_larger_of_two_vocabularies_and_a_margin() -> None:
    conversation, named = RequestConversation(""), RequestConversation("", "two-vocabularies")
    conversation.user("hello world")
    named.user("hello world")
    count = conversation.request_count()
    assert (count.by, count.exact) == ("margin", False)
    assert count == named.request_count()
    bare = Conversation("", "chars4", markers=False)
    bare.user("hello world")
    assert bare.estimate_tokens() == 2
    assert not bare.exact


def test_a_models_name_says_who_counts() -> None:
    conversation = RequestConversation("You help.", "gpt-4o")
    conversation.user("hello world")
    assert (conversation.estimate_tokens(), conversation.exact) == (16, True)
    conversation.count = "gpt-5"
    assert (conversation.estimate_tokens(), conversation.exact) == (16, False)
    conversation.count = "o200k_base"
    assert conversation.estimate_tokens() > 16
    conversation.count = "gpt-4"
    assert conversation.exact
    conversation.count = "a model that nobody knows"
    with pytest.raises(UnknownTokenizer):
        conversation.estimate_tokens()


def test_a_model_counts_as_fit_does_and_can_be_switched() -> None:
    conversation = RequestConversation("You help.", model="gpt-4o")
    conversation.user("hello world")
    for model in ("gpt-4o", "gpt-4", "a model that nobody knows"):
        conversation.model = model
        assert conversation.request_count() == tokenbox.count(conversation.messages, model)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    conversation.add({"role": "user", "content": [picture]})
    conversation.count = lambda text: len(text)  # noqa: PLW0108  # unlike len, it is of Python
    sizes = []
    for model in ("gpt-4o", "gpt-4o-mini"):
        conversation.model = model
        sizes.append(conversation.estimate_tokens())
    assert 10 * sizes[0] < sizes[1]  # an image costs 33 times as much
    conversation.model, conversation.count = None, "chars4"
    assert conversation.request_count() == tokenbox.count(conversation.messages, tokenizer="chars4")
    with pytest.raises(tokenbox.TokenboxError, match="a model is a name"):
        RequestConversation("You help.", model=cast("str", 3))


def test_integers_of_other_libraries_are_integers() -> None:
    kind: Any = np.int64
    conversation = Conversation("abc", lambda text: kind(len(text)), kind(2), kind(9))
    conversation.user("abcd")
    assert conversation.estimate_tokens() == 7
    conversation.user("abcd")
    assert conversation.enforce_budget().total == 7
    with pytest.raises(InvalidBudget):
        Conversation("", token_budget=np.float64(3))  # type: ignore[arg-type]
    with pytest.raises(TokenizerError):
        Conversation("abc", lambda _: np.float64(3)).estimate_tokens()  # type: ignore[arg-type]


def test_a_system_prompt_alone_over_the_budget_returns_at_once() -> None:
    conversation = Conversation("x" * 500, "chars4", token_budget=100, max_turns=100)
    assert conversation.estimate_tokens() == 125
    result = conversation.enforce_budget()
    assert (result.evicted, result.steps, result.total, result.over) == ((), (), 125, 25)
    assert not result.fits
    assert result.overflow is not None
    assert result.overflow.to_dict()["deficit"] == 25
    assert "raise the budget by 25 to 125" in result.overflow.message


def test_the_budget_evicts_before_max_turns_does() -> None:
    conversation = Conversation("", len, max_turns=100, token_budget=20)
    for n in range(5):
        conversation.user(f"question{n}")
        result = conversation.enforce_budget()
        assert result.fits
        conversation.assistant("y")
    assert [m["content"] for m in conversation.messages] == ["question3", "y", "question4", "y"]
    status = conversation.status
    assert (status.evictions, status.evicted_messages, status.evicted_tokens) == (3, 6, 30)
    assert status.tokens == 20
    assert status.to_dict()["exact"] is False


def test_a_message_is_counted_once_in_its_life() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 42

    conversation = Conversation("system", count, max_turns=3)
    for n in range(6):
        conversation.user(f"q{n}")
        conversation.assistant(f"a{n}")
        conversation.estimate_tokens()
        conversation.enforce_budget()
    assert conversation.estimate_tokens() == 7 * 42
    of_messages = [text for text in counted if text != "system"]
    assert sorted(of_messages) == sorted(f"{who}{n}" for n in range(6) for who in "aq")


def test_a_closure_follows_the_model() -> None:
    model = {"name": "small"}
    counters: dict[str, Callable[[str], int]] = {"small": len, "large": lambda text: 3 * len(text)}

    def count(text: str) -> int:
        return counters[model["name"]](text)

    conversation = Conversation("sys", count)
    conversation.user("abcd")
    assert conversation.estimate_tokens() == 7
    model["name"] = "large"
    assert conversation.estimate_tokens() == 21
    conversation.count = len
    assert conversation.estimate_tokens() == 7
    conversation.count = "utf8-bytes"
    conversation.user("é")
    assert conversation.estimate_tokens() == 9


def test_recount_of_a_function_without_a_prompt_to_tell_by() -> None:
    factor = [1]
    conversation = Conversation("", lambda text: factor[0] * len(text))
    conversation.user("ab")
    assert conversation.estimate_tokens() == 2
    factor[0] = 5
    conversation.recount()
    assert conversation.estimate_tokens() == 10


def test_the_system_prompt_and_the_tools_may_change() -> None:
    conversation = Conversation("abc", len, tools=[{"type": "function"}])
    assert conversation.estimate_tokens() == 3 + len('{"type": "function"}')
    conversation.tools = None
    conversation.system = "abcdef"
    assert conversation.estimate_tokens() == 6
    assert conversation.messages == [{"role": "system", "content": "abcdef"}]
    conversation.system = ""
    assert conversation.messages == []


def test_calls_and_results_leave_together_and_a_waiting_call_stays() -> None:
    conversation = Conversation("", len, token_budget=4)
    conversation.user("quest")
    call = conversation.add(CALLS)
    assert not conversation.enforce_budget().fits
    assert call in conversation.window
    conversation.add(RESULT)
    result = conversation.enforce_budget()
    assert result.evicted == ()  # the model has not read it yet, and without it the question is too long
    assert not result.fits
    conversation.token_budget = 9
    conversation.assistant("3")
    assert [m["role"] for m in conversation.enforce_budget().evicted] == ["assistant", "tool"]


def test_a_call_that_was_given_up_leaves() -> None:
    conversation = Conversation("", len)
    conversation.user("q")
    conversation.add(CALLS)
    conversation.user("never mind")
    [step] = conversation.enforce_budget().steps
    assert "tool call" in step.why
    assert [m["role"] for m in conversation.messages] == ["user", "user"]
    conversation.add(RESULT)
    assert len(conversation.enforce_budget().evicted) == 1


def test_steps_may_be_an_iterator_also_later() -> None:
    for steps in (["rounds"], iter(["rounds"])):
        conversation = Conversation("", len)
        conversation.steps = steps  # type: ignore[assignment]  # any iterable
        conversation.user("q")
        conversation.enforce_budget()
        assert tuple(conversation.steps) == ("rounds",)


def test_pinned_messages_stay() -> None:
    conversation = Conversation("", len, token_budget=6)
    first = conversation.add({"role": "user", "content": "keep"}, pinned=True)
    conversation.user("gone")
    conversation.user("x")
    conversation.enforce_budget()
    assert [m["content"] for m in conversation.messages] == ["keep", "x"]
    conversation.unpin(first)
    conversation.user("yyyyy")
    conversation.enforce_budget()
    assert [m["content"] for m in conversation.messages] == ["x", "yyyyy"]


def test_items_add_up() -> None:
    conversation = Conversation("sys", len, tools=[{}])
    first = conversation.user("hello")
    conversation.add(CALLS)
    conversation.add(RESULT)
    conversation.pin(first)
    items = conversation.items()
    assert sum(item.tokens for item in items) == conversation.estimate_tokens()
    assert [item.name for item in items] == ["system", "user", "assistant", "tool", "tools and markers"]
    assert [item.pinned for item in items] == [False, True, False, False, False]


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_no_item_has_less_than_no_tokens(system: str, tmp_path: Path) -> None:
    """As with the template of Qwen2.5, which has a system prompt of its own in place of a missing one."""
    own = "{% if messages[0].role != 'system' %}" + "A prompt of its own. " * 20 + "{% endif %}"
    chat = ChatFormat.open(models.write(tmp_path / "model", own + models.TURNS).gguf)
    conversation = RequestConversation(system, chat)
    for number in range(4):
        conversation.user(f"question {number}")
        conversation.assistant("yes " * 30 * number)
        items = conversation.items()
        assert sum(item.tokens for item in items) == conversation.estimate_tokens()
        assert all(item.tokens >= 0 for item in items)
        if system:
            assert items[0].tokens == chat.message_size(Message.of({"role": "system", "content": system}))


def test_extend_takes_what_can_be_read_once() -> None:
    conversation = Conversation("", "utf8-bytes")
    assert conversation.extend({"role": "user", "content": text} for text in "ab") == [0, 1]
    with pytest.raises(InvalidMessage):
        conversation.extend(iter([{"role": "user", "content": "c"}, {"role": "nobody"}]))
    assert len(conversation.messages) == 2


def test_drop_takes_calls_and_results_together() -> None:
    conversation = Conversation("", len)
    conversation.user("hello")
    conversation.add(CALLS)
    result = conversation.add(RESULT)
    assert conversation.drop(result) == (1, 2)
    assert conversation.estimate_tokens() == 5
    with pytest.raises(InvalidMessage, match="no message 1"):
        conversation.drop(1)


def test_a_result_of_a_dropped_call_is_a_stray() -> None:
    """Whoever takes back a call while its tool runs gets the result all the same."""
    conversation = Conversation("", len, token_budget=100)
    conversation.user("hello")
    conversation.drop(conversation.add(CALLS))
    conversation.add(RESULT)
    conversation.enforce_budget()
    assert [message["role"] for message in conversation.messages] == ["user"]
    conversation.add(CALLS)
    conversation.add(RESULT)
    conversation.enforce_budget()
    assert [message["role"] for message in conversation.messages] == ["user", "assistant", "tool"]


IDS = st.sampled_from(["a", "b", "c", None])


@given(st.lists(IDS, max_size=8), st.lists(IDS, max_size=12))
def test_a_result_answers_the_first_call_with_its_id_or_the_first_without_one(
    calls: list[str | None], results: list[str | None]
) -> None:
    waiting, slow = Waiting(calls), list(calls)
    for identifier in results:
        place = 0 if identifier is None else next((i for i, it in enumerate(slow) if it == identifier), None)
        if place is None:
            place = next((i for i, it in enumerate(slow) if it is None), None)
        answers = place is not None and place < len(slow)
        assert waiting.take(identifier) is answers
        if place is not None and answers:
            del slow[place]
        assert bool(waiting) is bool(slow)


class Id(str):
    """An id that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Id.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("start", ["a", "x"])
def test_each_of_many_results_is_matched_at_once(start: str) -> None:
    """A list of 20,000 results in the reverse order was searched from the beginning for each."""
    waiting = Waiting(Id(f"a{number}") for number in range(2_000))
    Id.compared = 0
    found = [waiting.take(Id(f"{start}{number}")) for number in reversed(range(2_000))]
    assert found == [start == "a"] * 2_000
    assert Id.compared < 3 * 2_000


def test_summarize_on_evict() -> None:
    seen: list[Evicted] = []

    def summarize(evicted: Evicted) -> str:
        seen.append(evicted)
        return evicted.summary + "+" + "".join(m.text[0] for m in evicted.messages)

    room = len(SUMMARY_HEADING) + 1
    conversation = Conversation("s", len, token_budget=room + 30, summarize=summarize)
    for letter in "abcdefg":
        conversation.user(letter * 12)
        result = conversation.enforce_budget()
        assert result.fits
        assert result.summary == (conversation.summary if result.evicted else None)
    assert conversation.summary
    assert conversation.messages[0]["content"] == f"s\n\n{SUMMARY_HEADING}\n{conversation.summary}"
    # All that left has been told, each once, also what made room for the summary.
    told = [m.text[0] for evicted in seen for m in evicted.messages]
    here = [m["content"][0] for m in conversation.messages[1:]]
    assert told + here == list("abcdefg")
    assert seen[0].text.startswith("user: aaa")


@pytest.mark.parametrize(
    ("returned", "says"),
    [(ValueError("no model"), "ValueError: no model"), (3, "InvalidMessage"), ("z" * 99, "too long")],
)
def test_a_failing_summary_loses_nothing(returned: object, says: str) -> None:
    def summarize(_: Evicted) -> Any:  # noqa: ANN401  # also what it should not
        if isinstance(returned, Exception):
            raise returned
        return returned

    conversation = Conversation("s", len, token_budget=10, summarize=summarize)
    conversation.summary = ""
    conversation.user("a" * 8)
    conversation.user("b" * 8)
    result = conversation.enforce_budget()
    assert result.fits
    assert [m["content"] for m in result.evicted] == ["a" * 8]
    assert result.failure is not None
    assert says in result.failure
    assert says in result.explain()
    assert conversation.messages == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "b" * 8},
    ]
    assert conversation.status.summary_failures == 1
    assert conversation.status.last_failure == result.failure


def test_a_counter_that_fails_changes_nothing() -> None:
    working = [True]

    def count(text: str) -> int:
        if not working[0]:
            raise OSError("down")
        return len(text)

    conversation = Conversation("sys", count, token_budget=8)
    conversation.user("aaaa")
    assert conversation.estimate_tokens() == 7
    working[0] = False
    conversation.user("bbbb")
    with pytest.raises(TokenizerError, match="down"):
        conversation.enforce_budget()
    working[0] = True
    assert conversation.enforce_budget().total == 7
    assert conversation.messages[1]["content"] == "bbbb"


def test_reset() -> None:
    conversation = Conversation("sys", len)
    conversation.user("a")
    conversation.summary = "b"
    conversation.reset()
    assert conversation.estimate_tokens() == 3
    assert conversation.messages == [{"role": "system", "content": "sys"}]


def test_an_image_costs_what_it_declares() -> None:
    image: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:,"}}
    conversation = Conversation("", len)
    conversation.add({"role": "user", "content": [image]})
    assert conversation.estimate_tokens() == MEDIA
    conversation.media_tokens = "declared"
    with pytest.raises(UndeclaredCost, match="image"):
        conversation.estimate_tokens()
    conversation.media_tokens = lambda part: 85 if part.kind == "image" else 0
    assert conversation.estimate_tokens() == 85
    conversation.add({"role": "user", "content": [{**image, "tokens": 7}, {"type": "text", "text": "abc"}]})
    assert conversation.estimate_tokens() == 85 + 85 + 3
    assert "tokens" not in conversation.messages[1]["content"][0]


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_turns": 1.5},
        {"max_turns": True},
        {"token_budget": -1},
        {"token_budget": "9"},
        {"low_water": 1.01},
        {"low_water": -1},
        {"low_water": "half"},
        {"low_water": float("nan")},
    ],
)
def test_impossible_limits(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidBudget):
        Conversation("", **options)


MESSAGES = st.lists(
    st.sampled_from(["user", "assistant", "round", "waiting", "stray", "pinned", "enforce"]), max_size=25
)


@given(MESSAGES, st.integers(0, 30), st.integers(1, 4), st.sampled_from([1, "0.5", "auto"]))
def test_calls_and_results_never_part(
    kinds: list[str], budget: int, turns: int, low_water: str | int
) -> None:
    conversation = Conversation("s", len, turns, budget, low_water=low_water)
    for kind in [*kinds, "enforce"]:
        if kind == "round":
            conversation.extend([CALLS, RESULT])
        elif kind == "waiting":
            conversation.add(CALLS)
        elif kind == "stray":
            conversation.add(RESULT)
        elif kind != "enforce":
            role = "user" if kind == "pinned" else kind
            conversation.add({"role": role, "content": "ab"}, pinned=kind == "pinned")
        else:
            check(conversation, conversation.enforce_budget())


def check(conversation: RequestConversation, result: tokenbox.conversation.Enforced) -> None:
    sent = conversation.messages
    assert conversation.estimate_tokens() == result.total
    total = sum(len(Message.of(m).counted_text) for m in sent)
    assert total == result.total
    assert result.fits == (total <= (conversation.token_budget or 0))
    for place, message in enumerate(sent):
        if message.get("tool_calls") and place + 1 < len(sent):
            assert sent[place + 1]["role"] == "tool"
        if message["role"] == "tool":
            assert sent[place - 1].get("tool_calls")


def test_a_summary_that_can_never_fit_costs_nothing() -> None:
    """Making room for it would have evicted everything, for nothing."""
    conversation = Conversation("s", len, token_budget=20, summarize=lambda _: "x" * 1_000)
    conversation.extend([{"role": "user", "content": f"hello{n}"} for n in range(5)])
    result = conversation.enforce_budget()
    assert [message["content"] for message in result.evicted] == ["hello0", "hello1"]
    assert result.total == 19
    assert "tokens too long" in str(result.failure)
    assert conversation.summary == ""


def test_what_was_summarized_before_a_failure_stays() -> None:
    given = iter(["one", ValueError("tired")])

    def summarize(_: Evicted) -> str:
        say = next(given)
        if isinstance(say, Exception):
            raise say
        return str(say)

    conversation = Conversation("s", len, token_budget=80, summarize=summarize)
    conversation.extend([{"role": "user", "content": "q" * 13} for _ in range(7)])
    result = conversation.enforce_budget()
    assert len(result.evicted) > 1  # the first, and what made room for the summary
    assert result.failure == "ValueError: tired"
    assert conversation.summary == "one"
    assert result.fits


def test_a_callback_that_adds_messages_ends() -> None:
    def summarize(_: Evicted) -> str:
        conversation.user("more")
        return "s"

    conversation = Conversation("s", len, token_budget=20, summarize=summarize)
    conversation.extend([{"role": "user", "content": f"hello{n}"} for n in range(5)])
    result = conversation.enforce_budget()
    assert "added messages" in str(result.failure)
    assert result.total == conversation.estimate_tokens() == 17


@pytest.mark.parametrize("wrong", [{"summarize": 3}, {"query": 3}, {"keep": "no"}])
def test_options_of_a_wrong_type_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidContent, match=r"a function|a text"):
        Conversation("s", **wrong)


@pytest.mark.parametrize("tools", [5, "abc", [object()], [{"a": {1}}], [{"a": "\ud800"}], {"a": 1}])
def test_what_are_no_tools(tools: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidMessage, match="tools"):
        Conversation("s", tools=tools)
    conversation = Conversation("s")
    with pytest.raises(InvalidMessage, match="tools"):
        conversation.tools = tools
    assert conversation.tools is None


def _pickled(conversation: RequestConversation) -> RequestConversation:
    found: RequestConversation = pickle.loads(pickle.dumps(conversation))
    return found


@pytest.mark.parametrize("copied", [deepcopy, copy, _pickled])
@pytest.mark.parametrize("count", ["gpt-4o", "o200k_base", None, len, "llama.cpp", "transformers"])
def test_a_copy_goes_its_own_way(
    count: Any,  # noqa: ANN401  # a name or a function
    copied: Callable[[RequestConversation], RequestConversation],
    model: models.Model,
) -> None:
    if count in ("llama.cpp", "transformers"):
        count = ChatFormat.open(model.gguf if count == "llama.cpp" else model.folder)
    conversation = RequestConversation("Be brief.", count, token_budget=400)
    for _ in range(9):
        conversation.user("hello " * 20)
        conversation.assistant("hi")
        conversation.enforce_budget()
    before = conversation.messages, conversation.estimate_tokens()
    branch = copied(conversation)
    assert all(map(is_, branch.values, conversation.values)) is (copied is copy)
    assert (branch.messages, branch.estimate_tokens()) == before
    branch.user("and now? " * 20)
    branch.system = "Be kind."
    branch.enforce_budget()
    assert (conversation.messages, conversation.estimate_tokens()) == before
    assert branch.messages[-1] == {"role": "user", "content": "and now? " * 20}


class _Client:
    """A client of a server, which has a lock, as most have."""

    def __init__(self) -> None:
        self.lock = Lock()

    def said(self, *_: object) -> str:
        return "said"

    def counted(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize("copied", [deepcopy, copy])
def test_a_copy_calls_the_same_client(copied: Callable[[RequestConversation], RequestConversation]) -> None:
    client = _Client()
    conversation = RequestConversation(count=client.counted, summarize=client.said, keep=client.said)
    branch = copied(conversation)
    for function in (branch.count, branch.summarize, branch.keep):
        assert function.__self__ is client  # type: ignore[union-attr]  # a method
