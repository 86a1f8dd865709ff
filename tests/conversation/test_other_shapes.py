"""Chats with tools in the shapes of every API: parallel calls, results in any order, huge or empty."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.conversation.agents import talk
from tests.effort import examples
from tokenbox import count, fit
from tokenbox.conversation.result_forms import handle_of
from tokenbox.errors import ContextCriticalOverflow

if TYPE_CHECKING:
    from collections.abc import Callable

    Chat = list[dict[str, Any]]

WORDS: Final = "release cache deploy river token window café 数据 résumé error trace stack".split()
IMAGE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


class Writer(random.Random):
    def text(self, *sizes: int) -> str:
        return " ".join(self.choice(WORDS) for _ in range(self.choice(sizes)))

    def result(self) -> str:
        """An empty text, JSON, a huge text, or a usual one."""
        kind = self.random()
        if kind < 0.1:
            return ""
        if kind < 0.2:
            return json.dumps([{"id": row, "name": self.text(3)} for row in range(self.randrange(1, 120))])
        return self.text(6_000) if kind < 0.25 else self.text(5, 40, 150, 600)

    def call_ids(self, place: str) -> tuple[list[str], list[str]]:
        """The ids of parallel calls, and in the order of their results."""
        calls = [f"{place}_{number}" for number in range(self.randrange(1, 5))]
        return calls, self.sample(calls, len(calls))

    def arguments(self) -> str:
        return json.dumps({"q": self.text(3)})


def chat_completions(r: Writer) -> Chat:
    chat: Chat = [{"role": r.choice(["system", "developer"]), "content": r.text(20)}]
    for n in range(r.randrange(12, 30)):
        asked = r.text(4, 20, 80)
        picture = [{"type": "text", "text": asked}, IMAGE]
        chat.append({"role": "user", "content": picture if r.random() < 0.1 else asked})
        for k in range(r.randrange(6)):
            calls, results = r.call_ids(f"{n}_{k}")
            functions = [{"name": r.choice(["search", "run"]), "arguments": r.arguments()} for _ in calls]
            made = [
                {"id": one, "type": "function", "function": function}
                for one, function in zip(calls, functions, strict=True)
            ]
            chat.append(
                {"role": "assistant", "content": r.choice([None, "", r.text(12)]), "tool_calls": made}
            )
            chat += [{"role": "tool", "tool_call_id": one, "content": r.result()} for one in results]
        chat.append({"role": "assistant", "content": r.text(3, 30, 200)})
    return [*chat, {"role": "user", "content": r.text(10)}]


def legacy(r: Writer) -> Chat:
    chat: Chat = [{"role": "system", "content": r.text(20)}]
    for _ in range(r.randrange(30, 60)):
        chat.append({"role": "user", "content": r.text(4, 20, 80)})
        for _ in range(r.randrange(4)):
            call = {"name": "search", "arguments": r.arguments()}
            chat.append({"role": "assistant", "content": None, "function_call": call})
            chat.append({"role": "function", "name": "search", "content": r.result()})
        chat.append({"role": "assistant", "content": r.text(30)})
    return [*chat, {"role": "user", "content": r.text(10)}]


def anthropic(r: Writer) -> Chat:
    chat: Chat = []
    for n in range(r.randrange(20, 50)):
        chat.append({"role": "user", "content": r.text(4, 20, 80)})
        for k in range(r.randrange(5)):
            calls, results = r.call_ids(f"{n}_{k}")
            uses = [
                {"type": "tool_use", "id": one, "name": "run", "input": {"q": r.text(3)}} for one in calls
            ]
            chat.append({"role": "assistant", "content": [{"type": "text", "text": r.text(8)}, *uses]})
            given = [{"type": "tool_result", "tool_use_id": one, "content": r.result()} for one in results]
            chat.append({"role": "user", "content": given})
        chat.append({"role": "assistant", "content": [{"type": "text", "text": r.text(30)}]})
    return [*chat, {"role": "user", "content": r.text(10)}]


def responses(r: Writer) -> Chat:
    chat: Chat = [{"role": "developer", "content": r.text(20)}]
    for n in range(r.randrange(20, 50)):
        asked = [{"type": "input_text", "text": r.text(4, 20, 80)}]
        chat.append({"type": "message", "role": "user", "content": asked})
        for k in range(r.randrange(5)):
            calls, results = r.call_ids(f"{n}_{k}")
            if r.random() < 0.4:
                thought = [{"type": "summary_text", "text": r.text(10)}]
                chat.append({"type": "reasoning", "id": f"{n}_{k}", "summary": thought})
            chat += [
                {"type": "function_call", "call_id": one, "name": "run", "arguments": r.arguments()}
                for one in calls
            ]
            chat += [
                {"type": "function_call_output", "call_id": one, "output": r.result()} for one in results
            ]
        if r.random() < 0.4:
            chat.append({"type": "reasoning", "id": f"{n}_t", "summary": [], "encrypted_content": r.text(9)})
        said = [{"type": "output_text", "text": r.text(30)}]
        chat.append({"type": "message", "id": f"{n}_a", "role": "assistant", "content": said})
    return [
        *chat,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
    ]


def parted(chat: Chat) -> bool:
    """Return True if a call is without its result, or a result without its call."""
    calls: list[str] = []
    results: list[str] = []
    for message in chat:
        blocks = message["content"] if isinstance(message.get("content"), list) else [message]
        calls += [call["id"] for call in message.get("tool_calls") or ()]
        calls += [block["id"] for block in blocks if block.get("type") == "tool_use"]
        calls += [block["call_id"] for block in blocks if block.get("type") == "function_call"]
        calls += ["legacy"] * ("function_call" in message)
        results += [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        results += [block["call_id"] for block in blocks if block.get("type") == "function_call_output"]
        results += [message.get("tool_call_id", "")] * (message.get("role") == "tool")
        results += ["legacy"] * (message.get("role") == "function")
    return sorted(calls) != sorted(results)


def name_of(item: dict[str, Any]) -> str | None:
    return item.get("call_id") or item.get("id")


@pytest.mark.slow
@pytest.mark.parametrize("shape", [chat_completions, legacy, anthropic, responses])
def test_chats_of_every_shape_fill_the_budget_and_part_nothing(shape: Callable[[Writer], Chat]) -> None:
    shares = []
    chats = examples(13)
    for seed in range(chats):
        chat = shape(Writer(f"{shape.__name__} {seed}"))
        assert not parted(chat)
        fitted = fit(chat, 4_000, model="gpt-4o")
        assert count(fitted.messages, model="gpt-4o").total == fitted.total <= 4_000
        assert not parted(fitted.messages)
        kept = set(map(name_of, fitted.messages))
        for before, after in pairwise(chat):
            if before.get("type") == "reasoning":
                assert (name_of(before) in kept) == (name_of(after) in kept)
        assert fitted.messages[-1] is chat[-1]
        if count(chat, model="gpt-4o").total > 4_000:
            shares.append(fitted.total / 4_000)
    assert len(shares) >= chats * 3 // 4
    assert mean(shares) >= 0.95
    assert min(shares) >= 0.8


@pytest.mark.parametrize("budget", [2_000, 4_000])
def test_long_texts_leave_no_large_hole(budget: int) -> None:
    shares = []
    chats = examples(20)
    for seed in range(chats):
        chat = talk(seed)
        fitted = fit(chat, budget, model="gpt-4o")
        assert count(fitted.messages, model="gpt-4o").total == fitted.total <= budget
        assert fitted.messages[-1] is chat[-1]
        if count(chat, model="gpt-4o").total > budget:
            shares.append(fitted.total / budget)
    assert len(shares) >= chats // 2
    assert mean(shares) >= 0.95
    assert min(shares) >= 0.8


SCREEN: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}


def pictures(r: Writer) -> Chat:
    """Half of the questions have an image, of about half of the smallest budget."""
    chat = chat_completions(r)
    for message in chat:
        if message["role"] == "user" and r.random() < 0.5:
            message["content"] = [{"type": "text", "text": r.text(4, 20, 80)}, IMAGE]
    return chat


def screenshots(r: Writer) -> Chat:
    """Results with images, and the user's last text beside results that were read since."""
    chat: Chat = []
    for n in range(r.randrange(4, 9)):
        asked: list[dict[str, Any]] = [{"type": "text", "text": r.text(4, 20, 80)}]
        chat.append({"role": "user", "content": [*asked, SCREEN] if r.random() < 0.5 else asked})
        for k in range(r.randrange(1, 5)):
            calls, results = r.call_ids(f"{n}_{k}")
            made = [{"type": "tool_use", "id": one, "name": "look", "input": {}} for one in calls]
            read = [
                {"type": "tool_result", "tool_use_id": one, "content": [{"type": "text", "text": r.text(40)}]}
                for one in results
            ]
            read[0]["content"] = [{"type": "text", "text": r.text(40, 600)}, SCREEN]
            reminder = [{"type": "text", "text": r.text(12)}]
            chat.append({"role": "assistant", "content": made})
            chat.append({"role": "user", "content": read + reminder if r.random() < 0.3 else read})
        chat.append({"role": "assistant", "content": [{"type": "text", "text": r.text(30)}]})
    return chat[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [pictures, screenshots])
def test_images_leave_the_budget_to_the_texts(shape: Callable[[Writer], Chat]) -> None:
    shares = []
    for seed in range(examples(13)):
        chat = shape(Writer(f"{shape.__name__} {seed}"))
        fitted = fit(chat, 2_000, model="gpt-4o")
        assert count(fitted.messages, model="gpt-4o").total == fitted.total <= 2_000
        assert not parted(fitted.messages)
        shares.append(fitted.total / 2_000)
    assert mean(shares) >= 0.95
    assert min(shares) >= 0.8


def look(name: str, *content: dict[str, Any]) -> Chat:
    """Return a round of one call."""
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": list(content)}]},
    ]


def test_an_unread_image_stays_beside_its_cut_text() -> None:
    text = {"type": "text", "text": "page " * 4_000}
    chat = [{"role": "user", "content": "Look."}, *look("a", text, SCREEN)]
    shown = fit(chat, 2_000, model="gpt-4o").messages[-1]["content"][0]["content"]
    assert shown[1] == SCREEN
    assert "left out" in shown[0]["text"]
    fitted = fit(chat, 900, model="gpt-4o")  # the image has no room at all
    assert "[1 image, left out]" in fitted.messages[-1]["content"][0]["content"]
    assert json.loads(fitted.expand(handle_of(json.dumps([text, SCREEN])))) == [text, SCREEN]


def test_an_old_image_becomes_a_line_and_can_be_expanded() -> None:
    old: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}
    chat = [old, {"role": "assistant", "content": "A cat."}, {"role": "user", "content": "And its age?"}]
    fitted = fit(chat, 200, model="gpt-4o")
    line = {"type": "text", "text": "[image, left out]"}
    assert fitted.messages == [{**old, "content": [old["content"][0], line]}, *chat[1:]]
    assert json.loads(fitted.expand(handle_of(json.dumps(old["content"])))) == old["content"]
    assert fit(chat, 200, model="gpt-4o", steps=("exchanges",)).messages == chat[2:]
    with_result = [*chat[:2], *look("b", SCREEN), *chat[2:]]
    masked = fit(with_result, 200, model="gpt-4o").messages[3]["content"][0]["content"]
    assert masked == "[result of look, 1 image, left out]"


def test_read_results_beside_the_last_text_of_the_user_may_be_shortened() -> None:
    chat = [{"role": "user", "content": "Look."}, *look("a", {"type": "text", "text": "page " * 4_000})]
    reminder = {"type": "text", "text": "Answer in French."}
    chat[-1]["content"].append(reminder)
    chat += look("b", {"type": "text", "text": "Page 2 is short."})
    fitted = fit(chat, 400, model="gpt-4o")
    assert fitted.messages[2]["content"][1] == reminder
    assert "left out" in fitted.messages[2]["content"][0]["content"]
    assert fitted.messages[3:] == chat[3:]
    with pytest.raises(ContextCriticalOverflow):
        fit(chat, 400, model="gpt-4o", pinned=[2])


LONG: Final = "word " * 200


@pytest.mark.parametrize(
    "compaction",
    [
        {"type": "compaction", "id": "c", "encrypted_content": "abc" * 50},
        {"role": "assistant", "content": [{"type": "compaction", "content": "They asked for the tide."}]},
    ],
    ids=["openai", "anthropic"],
)
def test_the_newest_compaction_stays_as_it_stands_for_everything_before_it(
    compaction: dict[str, Any],
) -> None:
    chat = [
        {"role": "user", "content": LONG},
        compaction,
        {"role": "user", "content": LONG},
        newest := dict(compaction),
        {"role": "assistant", "content": LONG},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": LONG},
        last := {"role": "user", "content": "Thanks."},
    ]
    kept = fit(chat, 200, "o200k_base", steps=("exchanges",)).messages
    assert len(kept) == 2 and kept[0] is newest and kept[1] is last  # noqa: PT018  # these two
    assert fit([*chat[:2], last], 150, "o200k_base", steps=("exchanges",)).messages[0] is chat[1]


@pytest.mark.parametrize("steps", [("rounds",), ("mask", "cut", "rounds", "exchanges")])
def test_a_program_stays_with_its_calls_and_its_output(steps: tuple[str, ...]) -> None:
    """Its calls come in several batches, and the server refuses a program without its output."""
    caller = {"type": "program", "caller_id": "P"}

    def called(identifier: str) -> list[dict[str, Any]]:
        call = {
            "type": "function_call",
            "call_id": identifier,
            "name": "f",
            "arguments": "{}",
            "caller": caller,
        }
        return [call, {"type": "function_call_output", "call_id": identifier, "output": LONG}]

    one, two = called("a"), called("b")
    program: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "program", "id": "p", "call_id": "P", "code": "f()", "fingerprint": "x"},
        *(one[0], two[0], two[1], one[1]),
        *called("c"),
        {"type": "program_output", "id": "o", "call_id": "P", "result": LONG, "status": "completed"},
    ]
    search: list[dict[str, Any]] = [
        {"type": "tool_search_call", "id": "s", "call_id": "S", "arguments": {}, "execution": "client"},
        *called("d"),
        {"type": "tool_search_output", "call_id": "S", "tools": []},
    ]
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    answer = {"role": "assistant", "content": "Done."}
    chat: list[dict[str, Any]] = [*asked, *program, answer, *asked, *search, answer, *asked]
    names = [one.get("type") for one in chat]
    seen = set()
    for budget in range(140, 2_000, 60):
        kept = [one.get("type") for one in fit(chat, budget, "o200k_base", steps=steps).messages]
        for begins, ends in (("program", "program_output"), ("tool_search_call", "tool_search_output")):
            assert (begins in kept) == (ends in kept)
        assert kept.count("function_call") == kept.count("function_call_output")
        has_program = names[1:10] == kept[1:10]
        assert has_program or "program" not in kept
        seen.add((has_program, "tool_search_call" in kept))
    assert {(True, True), (False, True), (False, False)} <= seen
