"""Random conversations with many tool calls or long texts, reduced to a budget by tokenbox and others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import product
from statistics import mean
from typing import Any

from workers import ENVIRONMENTS, HERE, SOURCE, rank_files

MODEL = "gpt-4o"
BUDGETS = (2_000, 4_000)
CHATS = 50
PEERS = {
    "langchain-core": ENVIRONMENTS["peers"],
    "litellm": ENVIRONMENTS["peers"],
    "llama-index-core": ENVIRONMENTS["peers"],
    "langmem": HERE / ".venv-langmem",
    "headroom-ai": HERE / ".venv-headroom",
}
# Targets for conversations over the budget: mean and minimum share of the budget that is used.
MEAN_SHARE, LEAST_SHARE = 0.95, 0.8


def run(*, quick: bool) -> dict[str, Any]:
    sys.path[:0] = [str(SOURCE), str(HERE.parent)]
    import tokenbox
    from tests.conversation.agents import conversation, talk

    seeds = range(10 if quick else CHATS)
    kinds = {"tools": list(map(conversation, seeds)), "long texts": list(map(talk, seeds))}
    rows, versions = [], {}
    for (kind, chats), budget in product(kinds.items(), BUDGETS):
        ours = [tokenbox.fit(chat, budget, model=MODEL).messages for chat in chats]
        rows.append({"chats": kind, **judged("tokenbox", budget, chats, ours)})
        for name in PEERS:
            versions[name], kept = theirs(name, budget, chats)
            rows.append({"chats": kind, **judged(name, budget, chats, kept)})
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "quick": quick,
        "chats": len(seeds),
        "versions": versions,
        "rows": rows,
    }


def theirs(name: str, budget: int, chats: list[list[dict[str, Any]]]) -> tuple[str, list[Any]]:
    done = subprocess.run(
        [PEERS[name] / "bin" / "python", HERE / "trim_once.py", name, str(budget)],
        input=json.dumps(chats),
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TIKTOKEN_CACHE_DIR": str(rank_files())},
        capture_output=True,
        text=True,
        check=True,
    )
    given = json.loads(done.stdout)
    return given["version"], given["kept"]


def judged(name: str, budget: int, chats: list[list[dict[str, Any]]], kept: list[Any]) -> dict[str, Any]:
    """Count the faults of the results, and measure the used share of the budget for chats above it."""
    import tokenbox

    found: dict[str, Any] = {"over": 0, "parted": 0, "no question": 0, "nothing": 0}
    shares = []
    for chat, some in zip(chats, kept, strict=True):
        if some is None:
            found["nothing"] += 1
            shares.append(0.0)
            continue
        total = tokenbox.count(some, MODEL).total
        question = [message["content"] for message in chat if message["role"] == "user"][-1]
        found["over"] += total > budget
        found["parted"] += parted(some)
        found["no question"] += question not in [message.get("content") for message in some]
        if tokenbox.count(chat, MODEL).total > budget:
            shares.append(total / budget)
    return {"name": name, "budget": budget, **found, "mean": mean(shares), "least": min(shares)}


def parted(messages: list[dict[str, Any]]) -> bool:
    """Return True if a call has no result, or a result no call."""
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return sorted(calls) != sorted(m["tool_call_id"] for m in messages if m["role"] == "tool")


def table(results: dict[str, Any]) -> str:
    lines = []
    for row in results["rows"]:
        faults = [row[key] for key in ("over", "parted", "no question", "nothing")]
        met = not any(faults) and row["mean"] >= MEAN_SHARE and row["least"] >= LEAST_SHARE
        verdict = ("met" if met else "**LOST**") if row["name"] == "tokenbox" else ""
        cells = " | ".join(map(str, faults))
        shares = f"{row['mean']:.2f} | {row['least']:.2f}"
        what = f"{row['chats']} | {row['budget']:,} | {row['name']}"
        lines.append(f"| {what} | {cells} | {shares} | {verdict} |")
    quick = " A quick run." if results["quick"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"""# Conversations heavy with tools, and with long texts

`bench/run.py toolchats`, {results["when"]}.{quick} {versions}. *Tools*: {results["chats"]} random
conversations of 8 questions, each with up to six rounds of up to three tool calls; the last round is not
answered yet. *Long texts*: {results["chats"]} without tools, long in the answers or the questions. Each
library cuts them to the budget; {MODEL}'s published rules count the request. *Parted*: calls without results,
or results without calls. *No question*: the last question is gone. *Nothing*: an error, or an empty list.
*Share*: of the budget, where more is there; over 1 is over the budget. headroom-ai compresses results and
drops nothing for a limit; langmem replaces old messages by a summary, here of a stub. Target: no faults,
{MEAN_SHARE} on average and {LEAST_SHARE} at least.

| chats | budget | library | over | parted | no question | nothing | share, mean | share, least | |
|---|---|---|---|---|---|---|---|---|---|
"""
        + "\n".join(lines)
        + "\n"
    )
