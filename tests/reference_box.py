"""A slow, obvious reference for the Token Box Model: every step counts the whole text again.

Written from the rules of docs/layout.md alone, to test the fast engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox import Section
    from tokenbox.tokenizers.protocol import Tokenizer


class Overflow(Exception):
    def __init__(self, fixed_load: int) -> None:
        self.fixed_load = fixed_load


@dataclass
class Solution:
    texts: list[str]
    decisions: list[str]
    total: int


def clusters(text: str) -> list[str]:
    return regex.findall(r"\X", text)


def longest_cut(text: str, limit: int, count: Callable[[str], int], keep: str = "head") -> str:
    """Try every truncation, from the whole text down."""
    parts = clusters(text)
    n = len(parts)
    for m in range(n, -1, -1):
        front = {"head": 0, "tail": n - m, "middle": (n - m) // 2, "ends": 0}[keep]
        kept = [*parts[: m - m // 2], *parts[n - m // 2 :]] if keep == "ends" else parts[front : front + m]
        if count("".join(kept)) <= limit:
            return "".join(kept)
    return ""


def shares(amount: int, weights: Sequence[Fraction]) -> list[int]:
    """Distribute by the largest remainder; ties go to the earlier one."""
    quotas = [amount * Fraction(w) / sum(weights) for w in weights]
    result = [int(q) for q in quotas]
    for i in sorted(range(len(quotas)), key=lambda i: (-(quotas[i] - result[i]), i))[: amount - sum(result)]:
        result[i] += 1
    return result


def solve(
    sections: Sequence[Section],
    budget: int,
    tokenizer: Tokenizer,
    separator: str,
    *,
    literal: bool = False,
    reclaim: bool = False,
) -> Solution:
    """Lay out the sections. ``literal``: apply steps 4a to 4c literally, once each to every section."""
    count = tokenizer.count
    texts = [s.content for s in sections]
    decisions = ["kept"] * len(sections)

    def total(given: Sequence[str]) -> int:
        return count(separator.join(t for t in given if t))

    fixed_load = total([s.content for s in sections if s.shrink == 0])
    if fixed_load > budget:
        raise Overflow(fixed_load)

    if total(texts) <= budget:
        used = [0] * len(sections)
        changed = True
        while changed:
            changed = False
            growing = [i for i, s in enumerate(sections) if s.grow > 0 and used[i] < len(s.extra)]
            left = budget - total(texts)
            if not growing or left <= 0:
                break
            for i, share in zip(
                growing, shares(left, [Fraction(sections[i].grow) for i in growing]), strict=True
            ):
                goal = total(texts) + share
                for item in sections[i].extra[used[i] :]:
                    grown = list(texts)
                    grown[i] = separator.join(t for t in (texts[i], item) if t)
                    if total(grown) > goal:
                        break
                    texts, used[i], changed = grown, used[i] + 1, True
                    decisions[i] = "expanded"
        return Solution(texts, _named(sections, texts, decisions), total(texts))

    lost: list[int] = []
    flexible = [i for i, s in enumerate(sections) if s.shrink > 0]
    for i in sorted(flexible, key=lambda i: (sections[i].priority, -sections[i].shrink, i)):
        if total(texts) <= budget:
            break
        section = sections[i]
        lost.insert(0, i)

        def put(text: str, i: int = i) -> None:
            texts[i] = text

        if not literal and total([t for k, t in enumerate(texts) if k != i]) > budget:
            put("")
            decisions[i] = "dropped"
            continue
        if section.strategy is not None:
            result = section.strategy.apply(section.content, tokenizer)
            if max(section.min, 1) <= count(result) < count(texts[i]):
                put(result)
                decisions[i] = "compressed"
        uncut = texts[i]
        while (deficit := total(texts) - budget) > 0:
            limit = max(section.min, count(texts[i]) - deficit)
            cut = longest_cut(uncut, limit, count, section.keep)
            if cut == texts[i] or not cut or count(cut) < section.min:
                break
            put(cut)
            decisions[i] = "truncated"
            if literal:
                break
        if total(texts) > budget:
            put("")
            decisions[i] = "dropped"
    for i in lost if reclaim else []:
        section, at_least = sections[i], max(sections[i].min, count(texts[i]) + 1)
        room = budget - total([t for k, t in enumerate(texts) if k != i])
        if total(texts) >= budget:
            break
        forms = [("kept", section.content)]
        partly = decisions[i] != "compressed"
        if section.strategy is not None and partly:
            result = section.strategy.apply(section.content, tokenizer)
            if at_least <= count(result) < count(section.content):
                forms.append(("compressed", result))
        for decision, form in forms:
            trial = [form if k == i else t for k, t in enumerate(texts)]
            least = count(texts[i]) + 1 if decision == "kept" else at_least
            if count(form) >= least and total(trial) <= budget:
                texts, decisions[i] = trial, decision
                break
        else:
            uncut = cut = forms[-1][1]
            while partly and cut and room > 0:
                trial = [cut if k == i else t for k, t in enumerate(texts)]
                over = total(trial) - budget
                if over <= 0:
                    if count(cut) >= at_least:
                        texts, decisions[i] = trial, "truncated"
                    break
                if count(cut) - over < at_least:
                    break
                cut = longest_cut(uncut, count(cut) - over, count, section.keep)
    return Solution(texts, _named(sections, texts, decisions), total(texts))


def _named(sections: Sequence[Section], texts: Sequence[str], decisions: Sequence[str]) -> list[str]:
    return [
        "kept" if text == section.content and decision != "dropped" else decision
        for section, text, decision in zip(sections, texts, decisions, strict=True)
    ]
