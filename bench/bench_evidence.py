"""Recall of facts in old turns: ``query="last"`` beside BM25 over turns and the newest turns.

Dialogues are generated from a seed. Old turns and long tool results contain facts; later questions ask for
them in other words. Their subjects also occur elsewhere. BM25 over turns takes those with the best scores
until the budget is full.
"""

from __future__ import annotations

import random
import re
import sys
from datetime import UTC, datetime
from typing import Any

from bm25 import bm25
from workers import HERE, SOURCE

BUDGETS = (2_000, 8_000)
MODEL = "gpt-4o"
MENTIONED = 0.25
# Facts and the questions for them ({0}: the subject, {1}: what to find), subjects, and words of small talk.
DOMAINS: dict[str, tuple[tuple[tuple[str, str], ...], str, str]] = {
    "home": (
        (
            ("My {0} is in the {1} these days.", "In which place did I leave the {0}?"),
            ("We got the {0} from a shop called {1}.", "Who sold us that {0}?"),
        ),
        "passport violin telescope kayak lantern toaster ladder tent drill scooter",
        "so then we talked about the weather and dinner and what they did at school before the bus came",
    ),
    "operations": (
        (
            ("The {0} cluster was moved to region {1} last spring.", "Where does {0} run now?"),
            ("Alerts of {0} are answered by team {1}.", "Who is on call for {0}?"),
        ),
        "billing checkout ingest search mailer gateway ledger metrics auth reports",
        "the deploy took a while and the tests were slow but the graphs look fine and nobody complained",
    ),
    "medicine": (
        (
            ("The patient tolerates {0} at {1} milligrams.", "What dose of {0} was all right?"),
            ("Dr. {1} warned against {0}.", "Which doctor advised against taking {0}?"),
        ),
        "ibuprofen warfarin metformin codeine insulin aspirin statins lithium morphine zinc",
        "the patient slept well and ate breakfast and walked a little in the corridor with the nurse today",
    ),
    "travel": (
        (
            ("I booked the {0} hotel under number {1}.", "What is the reservation code for {0}?"),
            ("The flight to {0} leaves from gate {1}.", "At which gate do I board for {0}?"),
        ),
        "Lisbon Oslo Kyoto Lima Cairo Dublin Quito Hanoi Tunis Riga",
        "it would be nice to see the old town and the museum and eat something by the river in the evening",
    ),
}


def dialogue(domain: str, seed: int) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return messages of at least some 12,000 tokens, and questions, each with the sentence that it needs."""
    rng = random.Random(f"{domain} {seed}")
    forms, things, talk = DOMAINS[domain]
    words, names = talk.split(), things.split()
    told = dict(zip(sorted(rng.sample(range(5, 130), len(names))), names, strict=True))
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}]
    asked: list[tuple[str, str]] = []

    def chat(low: int, high: int) -> str:
        """Return small talk that sometimes mentions a subject."""
        said = [rng.choice(words) for _ in range(rng.randint(low, high))]
        if rng.random() < MENTIONED:
            said[rng.randrange(len(said))] = rng.choice(names)
        return " ".join(said)

    for number in range(140):
        fact = ""
        if number in told:
            form, question = rng.choice(forms)
            fact = form.format(told[number], f"{rng.choice('KLMNP')}{rng.randrange(10, 99)}")
            asked.append((question.format(told[number]), fact))
        in_result = bool(fact) and rng.random() < 0.5
        said = chat(10, 60)
        messages.append({"role": "user", "content": said if in_result or not fact else f"{said}. {fact}"})
        if in_result or rng.random() < 0.15:
            lines = [chat(6, 14) for _ in range(rng.randint(5, 90))]
            if in_result:
                lines.insert(rng.randrange(len(lines)), fact)
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(lines)})
        messages.append({"role": "assistant", "content": chat(5, 60)})
    return messages, asked


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
    for domain in DOMAINS:
        for budget in BUDGETS:
            found = {"ours": 0, "bm25": 0, "newest": 0}
            asked = over = 0
            for seed in range(1 if quick else 5):
                messages, questions = dialogue(domain, seed)
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
            rows.append({"domain": domain, "budget": budget, "asked": asked, "over": over, **found})
    return {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "quick": quick, "rows": rows}


def table(results: dict[str, Any]) -> str:
    lines = []
    for row in results["rows"]:
        shares = [row[name] / row["asked"] for name in ("newest", "bm25", "ours")]
        met = "met" if shares[2] >= shares[1] and not row["over"] else "**LOST**"
        cells = " | ".join(f"{share:.2f}" for share in shares)
        lines.append(
            f"| {row['domain']} | {row['budget']:,} | {row['asked']} | {cells} | {row['over']} | {met} |"
        )
    quick = " A quick run." if results["quick"] else ""
    return (
        f"""# Evidence kept

`bench/run.py evidence`, {results["when"]}.{quick} Made-up dialogues of 140 turns: the share of
facts, told in old turns and in results of tools, that are in the request when they are asked for in other
words. Target: at least as many as BM25 over turns keeps, which is not held to whole exchanges or to calls
beside their results; and nothing over the budget.

| domain | budget | questions | the newest | BM25 over turns | `query="last"` | over the budget | |
|---|---|---|---|---|---|---|---|
"""
        + "\n".join(lines)
        + "\n"
    )
