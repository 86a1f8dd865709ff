"""Generated dialogues of several kinds, with facts in old turns and in tool results, and questions for them.

Everything follows from a seed. A fact has a unique value. Its question names the subject in other words, at
least one of which also occurs in the fact; other turns mention the subject without the fact, or say
something alike of another subject. Tool results are lists of lines, logs, tables, JSON (indented, or in one
line) or diffs.
"""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

TURNS, FACTS = 140, 10
MENTIONED = 0.25
"""The share of sentences of small talk that mention a subject."""
ALIKE = 4
"""How many statements of the form of a fact are made of things that no question asks for, per fact."""


@dataclass(frozen=True)
class Kind:
    """A kind of dialogue, from dialogues.toml.

    ``subjects``: pairs of what the fact and what the question call it, separated by ``=`` if these differ.
    ``others``: subjects that are like these, but never asked for. ``facts``: pairs of a statement and its
    question; ``{0}`` is the subject, ``{1}`` the value. A statement of two parts, separated by ``|``, is a
    question of the user and the assistant's answer. ``records``: the same for the lines of tool results.
    ``shapes``: the shapes of these results. ``talk``: sentences of small talk; ``{0}`` is a subject.
    """

    subjects: str
    others: str
    facts: list[tuple[str, str]]
    records: list[tuple[str, str]]
    shapes: list[str]
    talk: str


def _kinds() -> dict[str, Kind]:
    path = Path(__file__).with_suffix(".toml")
    return {name: Kind(**kind) for name, kind in tomllib.loads(path.read_text(encoding="utf-8")).items()}


KINDS = _kinds()


def dialogue(name: str, seed: int) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Return the messages of a dialogue, and its questions, each with the value that answers it."""
    return _Writer(KINDS[name], random.Random(f"{name} {seed}")).write()


class _Writer:
    def __init__(self, kind: Kind, rng: random.Random) -> None:
        self.kind, self.rng = kind, rng
        self.subjects = [subject.strip().partition("=") for subject in kind.subjects.split(";")]
        self.others = [other.strip() for other in kind.others.split(";")]
        self.talk = [sentence.strip() for sentence in kind.talk.split(";")]
        self.values: set[str] = set()
        self.calls = count()

    def write(self) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
        rng, kind = self.rng, self.kind
        told = dict(zip(sorted(rng.sample(range(5, 130), len(self.subjects))), self.subjects, strict=True))
        messages: list[dict[str, Any]] = [{"role": "system", "content": "You help."}]
        questions: list[tuple[str, str]] = []
        for number in range(TURNS):
            fact, record = "", ""
            if number in told:
                in_result = rng.random() < 0.5
                form, question = rng.choice(kind.records if in_result else kind.facts)
                subject, _, asked = told[number]
                value = self._value()
                questions.append((question.format(asked or subject), value))
                fact, record = (
                    ("", form.format(subject, value)) if in_result else (form.format(subject, value), "")
                )
            elif rng.random() < ALIKE * len(told) / TURNS:
                fact = self._alike(kind.facts)
            asks, _, answers = fact.partition("|")
            messages.append({"role": "user", "content": " ".join(filter(None, [self._talk(1, 5), asks]))})
            if record or rng.random() < 0.2:
                messages += self._round(record)
            said = " ".join(filter(None, [answers, self._talk(1, 5)]))
            messages.append({"role": "assistant", "content": said})
        return messages, questions

    def _value(self) -> str:
        while True:
            value = f"{self.rng.choice('KLMNPQRT')}{self.rng.randrange(100, 1000)}"
            if value not in self.values:
                self.values.add(value)
                return value

    def _alike(self, forms: list[tuple[str, str]]) -> str:
        return self.rng.choice(forms)[0].format(self.rng.choice(self.others), self._value())

    def _talk(self, low: int, high: int) -> str:
        said = []
        for _ in range(self.rng.randint(low, high)):
            mentions = self.rng.random() < MENTIONED
            some = [sentence for sentence in self.talk if ("{0}" in sentence) == mentions]
            sentence = self.rng.choice(some).format(self.rng.choice(self.subjects)[0])
            said.append(sentence[:1].upper() + sentence[1:] + ".")
        return " ".join(said)

    def _round(self, record: str) -> list[dict[str, Any]]:
        """Return a tool call and its result, of 5 to 90 lines, one of them ``record``."""
        rng = self.rng
        lines = [
            self._alike(self.kind.records) if rng.random() < 0.5 else self._talk(1, 2)
            for _ in range(rng.randint(5, 90))
        ]
        if record:
            lines.insert(rng.randrange(len(lines)), record)
        name = f"call-{next(self.calls)}"
        call = {"id": name, "type": "function", "function": {"name": "read", "arguments": "{}"}}
        text = _SHAPES[rng.choice(self.kind.shapes)](lines)
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": text},
        ]


def _log(lines: list[str]) -> str:
    return "\n".join(f"2026-03-{1 + n % 28:02} 10:{n % 60:02}:07 {line}" for n, line in enumerate(lines))


def _table(lines: list[str]) -> str:
    rows = (f"| {n} | {line} |" for n, line in enumerate(lines))
    return "\n".join(["| no | entry |", "|---|---|", *rows])


def _json(lines: list[str], indent: int | None) -> str:
    rows = [{"id": n, "entry": line} for n, line in enumerate(lines)]
    return json.dumps({"rows": rows, "next": None}, ensure_ascii=False, indent=indent)


def _diff(lines: list[str]) -> str:
    return "\n".join(
        ["--- a/app.py", "+++ b/app.py", *(line if line[0] == "+" else f"     # {line}" for line in lines)]
    )


_SHAPES = {
    "lines": "\n".join,
    "log": _log,
    "table": _table,
    "json": lambda lines: _json(lines, 1),
    "minified": lambda lines: _json(lines, None),
    "diff": _diff,
}
