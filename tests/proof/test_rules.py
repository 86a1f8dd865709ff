# ruff: noqa: ANN401  # a drawn value is anything; so is the parameter proof
"""A rule keeps its number only while the same inputs have the same outcome.

If a case below fails, a rule decides otherwise than before. If that is intended, raise the number in its name
(``ALGORITHM`` of the module that decides), then run ``make golden``: a replay then tells old bundles from
wrong ones.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from tests.proof.test_replay import contents_of
from tokenbox import ctx, fit, layout, render_blocks
from tokenbox.content.block_kinds import Lang, Priority
from tokenbox.content.blocks import AnnotationBlock, Block, CodeBlock
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.proof import Evidence

CASES = 60
WORDS = ("a", "be", "gamma\n", "é", "\n\n", "  ", "seven77", ".", "日本", "🇩🇪")


class Draw:
    """Values that depend on the seed alone, on every version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def number(self, end: int) -> int:
        return int(self._random() * end)

    def one(self, *values: Any) -> Any:
        return values[self.number(len(values))]

    def text(self, most: int) -> str:
        return "".join(self.one(*WORDS) + self.one("", " ") for _ in range(self.number(most)))


def sections(draw: Draw, *, degrade: bool = False) -> list[dict[str, Any]]:
    made = []
    for number in range(1 + draw.number(7)):
        section: dict[str, Any] = {
            "id": f"s{number}",
            "content": draw.text(24),
            "shrink": draw.one(0, 1, 1, 2, "0.5"),
            "priority": draw.one(100, 500, 900),
            "min": draw.one(0, 0, 5),
            "grow": draw.one(0, 1, 3),
            "extra": [draw.text(5) for _ in range(draw.number(3))],
            "keep": draw.one("head", "tail", "middle", "ends"),
            "cut": draw.one("grapheme", "word", "sentence", "line", "never"),
            "marker": draw.one("", " [{tokens}]"),
        }
        if degrade and section["shrink"]:
            section |= {"forms": [{"text": "short form"}], "group": draw.one(None, "a", "b")}
            section |= {"max": draw.one(None, 20, "30%")}
        made.append(section)
    return made


def in_layout(draw: Draw, proof: Any) -> None:
    layout(sections(draw), draw.number(150), "utf8-bytes", reclaim=draw.one(True, False), proof=proof)


def in_degraded(draw: Draw, proof: Any) -> None:
    groups: dict[str, dict[str, object]] = {
        "a": {"min": draw.number(9), "max": 9 + draw.number(50)},
        "b": {"max": "40%", "parent": "a"},
    }
    made = sections(draw, degrade=True)
    layout(made, draw.number(150), "utf8-bytes", policy="degrade", groups=groups, proof=proof)


def in_blocks(draw: Draw, proof: Any) -> None:
    blocks: list[Block] = []
    for number in range(1 + draw.number(6)):
        content, summary = draw.text(30).encode(), draw.one(None, "a summary")
        blocks.append(CodeBlock(Lang.PYTHON, f"{number}.py", content, summary=summary))
        blocks.append(AnnotationBlock.of_priority(len(blocks) - 1, draw.one(*Priority)))
    render_blocks(blocks, "utf8-bytes", draw.number(400), soft=draw.one(True, False), proof=proof)


def chat(draw: Draw) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw.text(6)}]
    for number in range(draw.number(8)):
        messages.append({"role": "user", "content": draw.text(30)})
        if draw.one(True, False):
            call = {"id": str(number), "type": "function", "function": {"name": "f", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": str(number), "content": draw.text(90)})
        messages.append({"role": "assistant", "content": draw.text(30)})
    return [*messages, {"role": "user", "content": "why?"}]


def in_window(draw: Draw, proof: Any) -> None:
    low_water = draw.one(1, "0.6", "auto")
    fit(chat(draw), 50 + draw.number(900), "utf8-bytes", low_water=low_water, proof=proof)


def in_plan(draw: Draw, proof: Any) -> None:
    strategy, chunks = draw.one((None, sections), ("window", chat), ("worth", chat), ("worth", sections))
    ctx.pack(chunks(draw), 60 + draw.number(900), 9, "0.05", strategy, tokenizer="utf8-bytes", proof=proof)


def in_estimate(draw: Draw, proof: Any) -> None:
    ctx.estimate(None, draw.one(sections, chat)(draw), tokenizer="utf8-bytes", proof=proof)


def in_guard(draw: Draw, proof: Any) -> None:
    ctx.enforce(
        "a", chat(draw), max_tokens_request=9, max_ctx=draw.number(900), tokenizer="utf8-bytes", proof=proof
    )


def outcome(make: Callable[[Draw, Any], None], seed: int) -> tuple[str, object]:
    """Return the rule, and what it made of the inputs of this seed; not how it says so."""
    found: list[Evidence] = []
    with suppress(TokenboxError):
        make(Draw(seed), found.append)
    (evidence,) = found
    contents, _ = contents_of(evidence)
    chosen = [[one.get(name) for name in ("id", "decision", "form", "size")] for one in contents.decisions]
    figures = [evidence.figures.get(name) for name in ("total", "tokens_in", "at_most", "over")]
    return evidence.algorithm, [evidence.outcome.status, contents.manifest.emitted, figures, chosen]


def test_outcomes_of_each_rule(golden: Callable[[str, str], None]) -> None:
    lines = []
    for make in (in_layout, in_degraded, in_blocks, in_window, in_plan, in_estimate, in_guard):
        outcomes = [outcome(make, seed) for seed in range(CASES)]
        ((rule, _),) = dict.fromkeys((rule, "") for rule, _ in outcomes)
        assert len({json.dumps(made) for _, made in outcomes}) > CASES / 2
        digest = hashlib.sha256(json.dumps(outcomes).encode()).hexdigest()
        lines.append(f"{rule} {make.__name__[3:]} {digest}\n")
    golden("rules/outcomes.txt", "".join(lines))
