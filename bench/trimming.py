"""Trim conversations that are hard to trim correctly, with tokenbox and other libraries.

    bench/setup && bench/.venv/bin/python bench/trimming.py

``tokenbox.fit`` beside ``trim_messages`` of langchain-core and of LiteLLM, called as their documentation
shows, all with o200k counts of the same texts. Writes the table of docs/trimming.md; ``--check`` compares.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import tokenbox  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

PAGE = HERE.parent / "docs" / "trimming.md"
START, END = "<!-- table: bench/trimming.py -->\n", "<!-- end of table -->\n"

Messages = list[dict[str, Any]]
LONG = "The tide comes in twice a day and leaves the harbour as it found it. "


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str) -> dict[str, Any]:
    function = {"name": "tide", "arguments": '{"port": "Brest"}'}
    made = [{"id": name, "type": "function", "function": function} for name in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(name: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": text}


SYSTEM = {"role": "system", "content": "You know the sea."}
CASES: dict[str, tuple[Messages, int]] = {
    "oversized system message": (
        [{"role": "system", "content": LONG * 20}, user("When is high tide?")],
        100,
    ),
    "list content": (
        [
            SYSTEM,
            {"role": "user", "content": [{"type": "text", "text": LONG * 8}]},
            answer("I see."),
            {"role": "user", "content": [{"type": "text", "text": "When is high tide?"}]},
        ],
        60,
    ),
    "trailing tool message": (
        [
            SYSTEM,
            user("When is high tide?"),
            calls("a"),
            result("a", LONG * 6),
            calls("b"),
            result("b", "At 17:04."),
        ],
        60,
    ),
    "orphan tool result": (
        [SYSTEM, result("gone", LONG), user("When is high tide?")],
        60,
    ),
    "parallel tool calls": (
        [
            SYSTEM,
            user("Compare the ports."),
            calls("a", "b"),
            result("a", LONG * 2),
            result("b", LONG * 2),
            answer("They are alike."),
            user("When is high tide?"),
        ],
        70,
    ),
}


def by_tokenbox(messages: Messages, budget: int) -> Messages:
    return tokenbox.fit(messages, budget, "o200k_base", markers=False).messages


# The other libraries are imported where they are used: a test compares the column of tokenbox without them.
def by_langchain(messages: Messages, budget: int, **options: str | bool) -> Messages:
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages

    def count(some: list[BaseMessage]) -> int:
        return tokens(convert_to_openai_messages(some))

    kept = trim_messages(
        convert_to_messages(messages),
        max_tokens=budget,
        token_counter=count,
        **options,  # type: ignore[call-overload]
    )
    return convert_to_openai_messages(kept)


def by_litellm(messages: Messages, budget: int) -> Messages:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or LiteLLM downloads its price list
    found = HERE.glob(".venv/lib/python*/site-packages/litellm/litellm_core_utils/tokenizers")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(next(found))
    from litellm.utils import trim_messages as litellm_trim

    return litellm_trim(messages, model="gpt-4o", max_tokens=budget)


def by_langchain_with_options(messages: Messages, budget: int) -> Messages:
    return by_langchain(messages, budget, include_system=True, start_on="human")


TRIMMERS: dict[str, Callable[[Messages, int], Messages]] = {
    "`tokenbox.fit`": by_tokenbox,
    "LangChain `trim_messages`": by_langchain,
    "LangChain with `include_system`, `start_on`": by_langchain_with_options,
    "LiteLLM `trim_messages`": by_litellm,
}
COUNT = tokenbox.tokenizers.get("o200k_base").count


def tokens(messages: Messages) -> int:
    """Count the texts of messages and their calls, as all three libraries do here."""
    return sum(COUNT(tokenbox.Message.of(message).counted_text) for message in messages)


def faults(given: Messages, kept: Messages, budget: int) -> list[str]:
    """List what is wrong with the result."""
    found = []
    if tokens(kept) > budget:
        found.append(f"{tokens(kept)} tokens, over the budget of {budget}")
    if not kept:
        return [*found, "nothing is left"]
    texts = [tokenbox.Message.of(message).text for message in kept]
    question = [tokenbox.Message.of(message).text for message in given if message["role"] == "user"][-1]
    if question not in texts:
        found.append("the question is gone")
    if given[0]["role"] == "system" and given[0]["content"] != texts[0]:
        found.append("the system message is gone or cut")
    open_calls: list[str] = []
    for message in kept:
        if message["role"] == "tool" and message["tool_call_id"] in open_calls:
            open_calls.remove(message["tool_call_id"])
        elif message["role"] == "tool":
            found.append("a tool result without its call")
        elif open_calls:
            break
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
    if open_calls:
        found.append("a tool call without its result")
    return list(dict.fromkeys(found))


def outcome(trim: Callable[[Messages, int], Messages], messages: Messages, budget: int) -> str:
    try:
        kept = trim([dict(message) for message in messages], budget)
    except Exception as error:  # noqa: BLE001  # a failure is a result
        return f"**{type(error).__name__}**: {' '.join(str(error).split())[:160]} ..."
    roles = " ".join(message["role"] for message in kept)
    wrong = faults(messages, kept, budget)
    return f"{roles or '-'}; **{'; '.join(wrong)}**" if wrong else f"{roles or '-'}; {tokens(kept)} tokens"


def table() -> str:
    lines = [f"| input | budget | {' | '.join(TRIMMERS)} |", "|---|---|" + "---|" * len(TRIMMERS)]
    for name, (messages, budget) in CASES.items():
        cells = [outcome(trim, messages, budget).replace("|", "\\|") for trim in TRIMMERS.values()]
        lines.append(f"| {name} ({tokens(messages)} tokens) | {budget} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    print(made := table())
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    after = rest.split(END)[1]
    whole = f"{before}{START}\n{made}\n{END}{after}"
    if "--check" in sys.argv:
        return int(page != whole)
    PAGE.write_text(whole, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
