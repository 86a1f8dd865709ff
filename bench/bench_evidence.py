"""Recall of facts in old turns: ``query="last"`` beside BM25 over turns and the newest turns.

Dialogues of ten kinds are generated from seeds (``dialogues.py``). BM25 over turns takes those with the best
scores until the budget is full.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Any

from bm25 import bm25
from dialogues import KINDS, dialogue
from workers import HERE, SOURCE

BUDGETS = (2_000, 8_000)
MODEL = "gpt-4o"
SEEDS = 5


def by_bm25(messages: list[dict[str, Any]], question: str, budget: int) -> list[dict[str, Any]]:
    """Return the messages with the best scores that fit, without the system message."""
    import tokenbox

    turns = [re.findall(r"\w+", str(message["content"]).lower()) for message in messages[1:]]
    scores = bm25(turns, re.findall(r"\w+", question.lower()))
    fixed = [messages[0], {"role": "user", "content": question}]
    left = budget - tokenbox.count(fixed, MODEL).total
    chosen = []
    for place in sorted(range(len(turns)), key=lambda i: -scores[i]):
        content = str(messages[place + 1]["content"])
        size = 4 + tokenbox.count(content, "o200k_base").total if content else 4
        if size <= left:
            chosen.append(place)
            left -= size
    return [messages[place + 1] for place in sorted(chosen)]


def run(*, quick: bool) -> dict[str, Any]:
    sys.path[:0] = [str(SOURCE), str(HERE.parent)]
    import tokenbox

    rows = []
    for kind in KINDS:
        for budget in BUDGETS:
            found = {"ours": 0, "bm25": 0, "newest": 0}
            asked = over = 0
            for seed in range(1 if quick else SEEDS):
                messages, questions = dialogue(kind, seed)
                for question, fact in questions:
                    request = [*messages, {"role": "user", "content": question}]
                    ours = tokenbox.fit(request, budget, model=MODEL, query="last")
                    over += tokenbox.count(ours.messages, MODEL).total > budget
                    kept = {
                        "ours": ours.messages,
                        "bm25": by_bm25(messages, question, budget),
                        "newest": tokenbox.fit(request, budget, model=MODEL).messages,
                    }
                    for name, some in kept.items():
                        found[name] += any(fact in str(message["content"]) for message in some)
                    asked += 1
            rows.append({"kind": kind, "budget": budget, "asked": asked, "over": over, **found})
    return {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "quick": quick, "rows": rows}


def table(results: dict[str, Any]) -> str:
    lines = []
    for row in results["rows"]:
        shares = [row[name] / row["asked"] for name in ("newest", "bm25", "ours")]
        met = "met" if shares[2] >= shares[1] and not row["over"] else "**LOST**"
        cells = " | ".join(f"{share:.2f}" for share in shares)
        lines.append(
            f"| {row['kind']} | {row['budget']:,} | {row['asked']} | {cells} | {row['over']} | {met} |"
        )
    quick = " A quick run." if results["quick"] else ""
    return (
        f"""# Evidence kept

`bench/run.py evidence`, {results["when"]}.{quick} Generated dialogues of 140 turns: the share of
facts, told in old turns and in results of tools (lines, logs, tables, JSON, diffs), that are in the request
when they are asked for in other words. Target: at least as many as BM25 over turns keeps, which is not held
to whole exchanges or to calls beside their results; and nothing over the budget.

| kind | budget | questions | the newest | BM25 over turns | `query="last"` | over the budget | |
|---|---|---|---|---|---|---|---|
"""
        + "\n".join(lines)
        + "\n"
    )
