"""A slow, obvious reference for the priority ladder: every step renders and counts the whole again.

Written from the rules of docs/layout.md alone, to test the fast engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import AnnotationBlock, EmbeddingRefBlock, resolve_priorities
from tokenbox.render.registry import find_renderer
from tokenbox.render.templates import block_body, merged_placeholder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenbox.content.blocks import Block

FULL, SUMMARY, PLACEHOLDER, MERGED, OMITTED = "full", "summary", "placeholder", "merged", "omitted"
LADDER = {
    Priority.CRITICAL: [FULL],
    Priority.HIGH: [FULL, SUMMARY, PLACEHOLDER],
    Priority.NORMAL: [FULL, SUMMARY, PLACEHOLDER],
    Priority.LOW: [SUMMARY, PLACEHOLDER],
    Priority.BACKGROUND: [PLACEHOLDER, OMITTED],
}


class Overflow(Exception):
    pass


def content(block: Block) -> str:
    """Return the text that a placeholder counts."""
    return f"embedding: {block.model}" if isinstance(block, EmbeddingRefBlock) else block_body(block)


@dataclass
class Solution:
    blocks: Sequence[Block]
    count: Callable[[str], int]
    mode: str
    forms: list[str]
    lines: set[Priority] = field(default_factory=set)

    def piece(self, i: int, form: str) -> str:
        block, markup = self.blocks[i], find_renderer(self.mode)
        match form:
            case "full":
                return markup.full(block).text
            case "summary":
                assert block.summary is not None
                return markup.summary(block, block.summary).text
            case "placeholder":
                return markup.placeholder(block, self.count(content(block))).text
        return ""

    def cost(self, i: int, form: str) -> int:
        """Return the tokens of a form alone, with the separators of this mode."""
        piece = self.piece(i, form)
        return self.count(f"\n{piece}\n" if self.mode == "xml" else piece)

    def text(self, priorities: Sequence[Priority]) -> str:
        pieces = [self.piece(i, form) for i, form in enumerate(self.forms)]
        for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW):
            if priority in self.lines:
                members = [
                    block
                    for block, p, form in zip(self.blocks, priorities, self.forms, strict=True)
                    if p is priority and form == MERGED
                ]
                tokens = sum(self.count(content(block)) for block in members)
                pieces.append(
                    merged_placeholder(
                        priority.display, len(members), tokens, find_renderer(self.mode).omitted_many
                    )
                )
        pieces = [piece for piece in pieces if piece]
        joined = "\n\n".join(pieces)
        if self.mode == "xml":
            return f"<context>\n{joined}\n</context>" if pieces else ""
        return joined


def lay_out(
    all_blocks: Sequence[Block], budget: int, count: Callable[[str], int], mode: str
) -> tuple[str, list[str]]:
    """Return the text, and the form of each block that is not an annotation. All contents are UTF-8."""
    keep = [i for i, block in enumerate(all_blocks) if not isinstance(block, AnnotationBlock)]
    resolved = resolve_priorities(all_blocks)
    priorities = [resolved[i] for i in keep]
    blocks = [all_blocks[i] for i in keep]

    def ladder(i: int) -> list[str]:
        return [form for form in LADDER[priorities[i]] if form != SUMMARY or blocks[i].summary is not None]

    def total() -> int:
        return count(solution.text(priorities))

    everyone = range(len(blocks))
    solution = Solution(blocks, count, mode, [ladder(i)[0] for i in everyone])
    if total() <= budget:
        return solution.text(priorities), solution.forms

    solution.forms = [FULL if p is Priority.CRITICAL else OMITTED for p in priorities]
    if total() > budget:
        raise Overflow
    solution.forms = [ladder(i)[-1] for i in everyone]
    between = [Priority.LOW, Priority.NORMAL, Priority.HIGH]
    if total() > budget:
        for i in everyone:
            if priorities[i] in between:
                least = solution.cost(i, PLACEHOLDER)
                solution.forms[i] = next(form for form in ladder(i) if solution.cost(i, form) <= least)
    for priority in between:
        for i in reversed(everyone):
            if total() <= budget:
                break
            if priorities[i] is priority:
                solution.forms[i] = MERGED
                solution.lines.add(priority)
    for priority in between:
        if total() > budget:
            solution.lines.discard(priority)
            solution.forms = [
                OMITTED if p is priority else form for p, form in zip(priorities, solution.forms, strict=True)
            ]
    lesser = MERGED in solution.forms or any(
        solution.forms[i] == OMITTED and priorities[i] in between for i in everyone
    )
    for priority in reversed(between):
        for i in everyone:
            if priorities[i] is not priority or solution.forms[i] in (MERGED, OMITTED):
                continue
            last = solution.forms[i]
            for form in ladder(i):
                solution.forms[i] = form
                if form == last or total() <= budget:
                    break
            lesser = lesser or solution.forms[i] != ladder(i)[0]
    if not lesser:
        for i in everyone:
            if priorities[i] is Priority.BACKGROUND:
                solution.forms[i] = PLACEHOLDER
                if total() > budget:
                    solution.forms[i] = OMITTED
    return solution.text(priorities), solution.forms


def lay_out_soft(
    all_blocks: Sequence[Block], budget: int, count: Callable[[str], int], mode: str
) -> tuple[str, list[str]]:
    """Lay out in soft mode: over the budget by at most the largest critical block."""
    keep = [i for i, block in enumerate(all_blocks) if not isinstance(block, AnnotationBlock)]
    resolved = resolve_priorities(all_blocks)
    priorities = [resolved[i] for i in keep]
    blocks = [all_blocks[i] for i in keep]
    everyone = range(len(blocks))

    def ladder(i: int) -> list[str]:
        return [form for form in LADDER[priorities[i]] if form != SUMMARY or blocks[i].summary is not None]

    def total() -> int:
        return count(solution.text(priorities))

    solution = Solution(blocks, count, mode, [ladder(i)[0] for i in everyone])
    if total() <= budget:
        return solution.text(priorities), solution.forms

    solution.forms = [FULL if p is Priority.CRITICAL else OMITTED for p in priorities]
    critical = [solution.cost(i, FULL) for i in everyone if priorities[i] is Priority.CRITICAL]
    limit = budget + max(critical, default=0)
    if len(critical) == 1:
        limit = max(limit, total())
    elif total() > limit:
        raise Overflow
    squeezed = []
    for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW):
        for i in everyone:
            if priorities[i] is not priority:
                continue
            for form in ladder(i):
                solution.forms[i] = form
                if total() <= budget:
                    break
            else:
                squeezed.append(i)
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        for i in reversed(squeezed):
            if priorities[i] is priority and total() > limit:
                solution.forms[i] = MERGED
                solution.lines.add(priority)
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        if total() > limit:
            solution.lines.discard(priority)
            for i in squeezed:
                if priorities[i] is priority:
                    solution.forms[i] = OMITTED
    for i in everyone:
        if priorities[i] is Priority.BACKGROUND:
            solution.forms[i] = PLACEHOLDER
            if total() > budget:
                solution.forms[i] = OMITTED
    return solution.text(priorities), solution.forms
