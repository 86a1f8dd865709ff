"""Prompt caches: the tokens of a session of 300 turns that a server processes again, and the mean context."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import table_cache
from bench_layout import machine, say
from workers import ENVIRONMENTS, HERE, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from session import Prompts, Session

    Kept = list[list[dict[str, Any]]]

BUDGET = 4_000
SEED = 1
# Low-water marks; those between behave as the nearest of these.
MARKS = [*(1 - Fraction(1, 2**k) for k in range(8)), Fraction(1)]
EAGERNESS = [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2)]
# Seeds of the sessions on which `auto` is compared with the fixed marks.
SEEDS = range(101, 121)
PRICES = [0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.7, 2.2, 3.0]
# Models, and the day of their prices in the catalog.
PRICED = ("claude-sonnet-4-5", "gpt-5.2", "gpt-4o")
DAY = date(2026, 11, 22)
ROUNDS, AGENT_BUDGET = 60, 8_000
BUDGETS = (4_000, 8_000, 16_000, 32_000)
# Limits of the number of requests: with the whole history, this library takes many minutes.
AT_MOST = {"LiteLLM trim_messages, as shipped": 80}
ON_THE_SERVER = ("low water 0.75", "auto", "LangChain trim_messages")

table = table_cache.table


def run(*, quick: bool) -> dict[str, Any]:
    sys.path[:0] = [str(SOURCE), str(HERE.parent)]
    from session import Prompts, session
    from trimmers import TRIMMERS

    from tests.llama import model

    turns = 60 if quick else 300
    with tempfile.TemporaryDirectory() as folder:
        made = model.write(Path(folder), model.TOOLS)
        prompts = Prompts(folder)
        one = session(SEED, prompts, turns)
        results: dict[str, Any] = {
            "when": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": machine(),
            "quick": quick,
            "budget": BUDGET,
            "session": {
                "seed": SEED,
                "turns": turns,
                "messages": len(one.messages),
                "requests": len(one.requests),
                "new": prompts.count(one.messages[: one.requests[-1]]),
            },
            "points": [],
        }
        sent: dict[str, Kept] = {}
        settings: list[tuple[str, object]] = [(f"low water {float(mark):g}", mark) for mark in MARKS]
        for name, low_water in [*settings, *((_auto_name(e), _auto(e)) for e in EAGERNESS)]:
            sent[name] = ours(one, prompts, low_water)
            results["points"].append(point(name, sent[name], prompts) | {"ours": True})
        versions = {}
        for name in TRIMMERS:
            version, sent[name] = theirs(name, one, folder)
            versions[name.split()[0]] = version
            results["points"].append(point(name, sent[name], prompts) | {"ours": False})
        results["versions"] = versions
        results["server"] = []
        for name in ON_THE_SERVER[:1] if quick else ON_THE_SERVER:
            # A new server each time: it also keeps older prompts, and would find those of the other settings.
            with server(made) as llama:
                results["server"].append(on_the_server(name, sent[name], prompts, llama))
        results["agents"] = [
            agent(name, steps, low_water, prompts)
            for name, steps in (("whole exchanges and rounds", ("rounds", "exchanges")), ("masking", None))
            for low_water in (1, "auto")
        ]
        results["prices"] = prices()
        results["spread"] = spread(prompts, SEEDS[:3] if quick else SEEDS, turns)
    results["load"] = list(os.getloadavg())
    return results


def ours(one: Session, prompts: Prompts, low_water: object) -> Kept:
    """Return the messages of each request of a running conversation."""
    from tokenbox.conversation import Conversation

    running = Conversation(
        one.messages[0]["content"],
        prompts.format,
        token_budget=BUDGET,
        low_water=low_water,  # type: ignore[arg-type]
    )
    kept, taken = [], 1
    for request in one.requests:
        running.extend(one.messages[taken:request])
        taken = request
        running.enforce_budget()
        kept.append(running.messages)
    return kept


def agent(name: str, steps: tuple[str, ...] | None, low_water: object, prompts: Prompts) -> dict[str, Any]:
    """Run an agent of 60 rounds, each with a decision; count those that its last request still contains."""
    from tests.conversation.agents import agent as agent_messages
    from tokenbox.conversation import Conversation
    from tokenbox.engine.steps import ALL_STEPS

    messages = agent_messages(ROUNDS)
    running = Conversation(
        messages[0]["content"],
        prompts.format,
        token_budget=AGENT_BUDGET,
        low_water=low_water,  # type: ignore[arg-type]
        steps=ALL_STEPS if steps is None else steps,
    )
    kept = []
    for message in messages[1:]:
        if message["role"] == "assistant":
            running.enforce_budget()
            kept.append(running.messages)
        running.add(message)
    made = point(f"agent, {name}, low water {low_water}", kept, prompts, AGENT_BUDGET)
    return made | {"decisions": sum(str(message["content"]).startswith("Decision") for message in kept[-1])}


def prices() -> dict[str, dict[str, str | None]]:
    import tokenbox

    found = {model: tokenbox.catalog.price(model, DAY) for model in PRICED}
    return {
        model: {
            name: _text(getattr(price, name)) for name in ("input", "cached_input", "cache_write", "date")
        }
        for model, price in found.items()
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def theirs(name: str, one: Session, folder: str) -> tuple[str, Kept]:
    """Return the version of another library and the messages that it sends, from its own process."""
    done = subprocess.run(
        [ENVIRONMENTS["peers"] / "bin" / "python", HERE / "trimmers.py", folder, str(BUDGET), name],
        input=json.dumps({"messages": one.messages, "requests": one.requests[: AT_MOST.get(name)]}),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TOKENIZERS_PARALLELISM": "false"},
    )
    given = json.loads(done.stdout)
    return given["version"], [
        [one.messages[m] if isinstance(m, int) else m for m in kept] for kept in given["kept"]
    ]


def point(name: str, kept: Kept, prompts: Prompts, budget: int = BUDGET) -> dict[str, Any]:
    """Return the tokens that a server with one cached prompt processes: all after the common prefix."""
    processed, before, contexts = 0, [], []
    for messages in kept:
        prompt = prompts.request(messages)
        processed += len(prompt) - min(common(prompt, before), len(prompt) - 1)
        contexts.append(len(prompt))
        before = prompt
    made = {
        "name": name,
        "requests": len(kept),
        "processed": processed,
        "context": mean(contexts),
        "over": sum(context > budget for context in contexts),
        "most": max(contexts),
        "orphans": sum(map(orphans, kept)),
    }
    say(f"{name:45} {processed:>9,} {made['context']:7,.0f} {made['over']:4} {made['orphans']:4}")
    return made


def common(prompt: Sequence[int], before: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    most = min(len(prompt), len(before))
    return next((i for i in range(most) if prompt[i] != before[i]), most)


def orphans(messages: Sequence[dict[str, Any]]) -> int:
    """Count tool results without their call and calls without their results."""
    calls = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    results = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    return len(calls ^ results)


@contextmanager
def server(model: Any) -> Iterator[Any]:  # noqa: ANN401  # a tests.llama.model.Model
    from tests.llama.server import serve

    llama = serve(model, 2 * BUDGET, 1)
    try:
        yield llama
    finally:
        llama.kill()


def on_the_server(name: str, kept: Kept, prompts: Prompts, llama: Any) -> dict[str, Any]:  # noqa: ANN401
    """Send the requests to a real llama.cpp server; return the tokens it processed and found in its cache."""
    processed = cached = wrong = 0
    for messages in kept:
        status, answer = llama.post(
            "/v1/chat/completions", {"messages": messages, "max_tokens": 1, "temperature": 0}
        )
        if status != 200:
            raise SystemExit(f"{name}: the server answers {status}: {answer}")
        processed += answer["timings"]["prompt_n"]
        cached += answer["timings"]["cache_n"]
        wrong += answer["usage"]["prompt_tokens"] != prompts.count(messages)
    say(f"{name:45} {processed:>9,} on the server, {wrong} totals that differ")
    return {"name": name, "processed": processed, "cached": cached, "wrong_totals": wrong}


def spread(prompts: Prompts, seeds: Sequence[int], turns: int) -> dict[str, Any]:
    """Compare ``auto`` with the fixed marks and the optimum, over sessions of other seeds."""
    import cuts
    import session as sessions

    from tokenbox.engine.steps import WindowLimits

    made: dict[str, Any] = {"seeds": list(seeds), "kinds": {}, "mix": []}
    for kind in sessions.KINDS:
        numbers = [cuts.Numbers.of(sessions.session(seed, prompts, turns, kind), prompts) for seed in seeds]
        made["kinds"][kind] = {
            "new": [one.ends[one.requests[-1] - 1] for one in numbers],
            "requests": [len(one.requests) for one in numbers],
            "plain": [_plays(numbers, WindowLimits(None, BUDGET, int(BUDGET * mark))) for mark in MARKS],
            "auto": {str(e): _plays(numbers, WindowLimits(None, BUDGET, 0, e)) for e in EAGERNESS},
            "best": [[_pair(cuts.best(one, BUDGET, price)) for one in numbers] for price in PRICES],
        }
        say(f"{kind}: {len(numbers)} sessions")
        some = numbers[:3]
        for budget in BUDGETS:
            made["mix"].append(
                {
                    "kind": kind,
                    "budget": budget,
                    "requests": [len(one.requests) for one in some],
                    "plain": [_plays(some, WindowLimits(None, budget, int(budget * m))) for m in MARKS],
                    "auto": {str(e): _plays(some, WindowLimits(None, budget, 0, e)) for e in EAGERNESS},
                }
            )
    return made


def _plays(numbers: Sequence[Any], limits: Any) -> list[tuple[float, float]]:  # noqa: ANN401
    import cuts

    return [_pair(cuts.play(one, limits)) for one in numbers]


def _pair(played: Any) -> tuple[float, float]:  # noqa: ANN401
    return played.again, round(played.context, 2)


def _auto_name(eagerness: Fraction) -> str:
    return "auto" if eagerness == 1 else f"auto, eagerness {eagerness}"


def _auto(eagerness: Fraction) -> object:
    from tokenbox.conversation import AutoLowWater

    return AutoLowWater(eagerness)
