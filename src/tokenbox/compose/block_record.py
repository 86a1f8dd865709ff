"""The record of blocks laid out: what was emitted, what became of each block and why, and its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from tokenbox.tokenizers.cache import text_digest

if TYPE_CHECKING:
    from tokenbox.content.block_kinds import Priority
    from tokenbox.content.blocks import Block
    from tokenbox.engine.ladder import Form, LadderStep
    from tokenbox.render.templates import Mode
    from tokenbox.tokenizers.protocol import TokenizerIdentity

SCHEMA = "tokenbox.blocks/1"
ALGORITHM = "priority-ladder/1"


class Verbosity(StrEnum):
    """How much of each block is shown."""

    FULL = "full"
    SUMMARY = "summary"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True)
class BlockResult:
    """What became of one block. ``index`` is its place in the list that was given, annotations counted.

    In tokens: ``base_size`` of its content without markup, ``size`` of the form that was emitted.
    """

    index: int
    type: str
    description: str
    priority: Priority
    form: Form
    base_size: int
    size: int
    steps: tuple[LadderStep, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """A sentence for each rule that gave the block less than its full form."""
        return tuple(step.why(self.priority.display) for step in self.steps)

    def to_dict(self) -> dict[str, object]:
        return {
            "index": self.index,
            "type": self.type,
            "description": self.description,
            "priority": self.priority.display,
            "form": self.form.value,
            "base_size": self.base_size,
            "size": self.size,
            "why": list(self.why),
        }


@dataclass(frozen=True, slots=True)
class MergedLine:
    """One line that stands for ``blocks`` blocks of a class, whose contents count ``tokens`` together."""

    priority: Priority
    blocks: int
    tokens: int
    size: int

    def to_dict(self) -> dict[str, object]:
        return {
            "priority": self.priority.display,
            "blocks": self.blocks,
            "tokens": self.tokens,
            "size": self.size,
        }


@dataclass(frozen=True)
class BlockLayout:
    """Blocks rendered. ``total`` is the count of ``text`` as a whole, markup and all.

    ``total <= budget`` for a hard budget (adaptive verbosity, not ``soft``); otherwise ``over`` says by how
    much it is over. ``inputs`` are the blocks that were rendered, with the summaries made for them.
    ``pricing`` says how the joins were priced while deciding: ``exact`` or ``conservative``. ``summarized``:
    the indices of the blocks whose summaries were made on the way. ``pieces`` are the text as it was put
    together: who only writes it needs no second copy of it.
    """

    inputs: tuple[Block, ...] = field(repr=False)
    blocks: tuple[BlockResult, ...] = field(repr=False)
    merged: tuple[MergedLine, ...] = field(repr=False)
    log: tuple[LadderStep, ...] = field(repr=False)
    pieces: tuple[str, ...] = field(repr=False)
    total: int
    budget: int | None
    mode: Mode
    verbosity: Verbosity
    soft: bool
    tokenizer: TokenizerIdentity
    pricing: str
    summarized: tuple[int, ...] = field(default=(), repr=False)

    @cached_property
    def text(self) -> str:
        """What was emitted."""
        return "".join(self.pieces)

    @property
    def over(self) -> int:
        """By how many tokens the text is over the budget; 0 if it is not, or if there is none."""
        return 0 if self.budget is None else max(0, self.total - self.budget)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over the RFC 8785 JSON of everything that decides the layout, and of its result."""
        import rfc8785  # noqa: PLC0415  # only who asks for a digest pays for it

        return hashlib.sha256(rfc8785.dumps(cast("Any", self._digested()))).hexdigest()

    def to_dict(self) -> dict[str, object]:
        """The record as JSON-compatible data."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "total": self.total,
            "over": self.over,
            "mode": self.mode.value,
            "verbosity": self.verbosity.value,
            "soft": self.soft,
            "pricing": self.pricing,
            "tokenizer": self.tokenizer.to_dict(),
            "blocks": [block.to_dict() for block in self.blocks],
            "merged": [line.to_dict() for line in self.merged],
            "text": self.text,
            "digest": self.digest,
        }

    def explain(self) -> str:
        """A line per block: what became of it, what it counts of what, and why it is not shown in full."""
        about = "" if self.tokenizer.exact else "~"
        of_budget = "" if self.budget is None else f" of {self.budget:,}"
        lines = [f"{about}{self.total:,}{of_budget} tokens ({self.tokenizer.name})"]
        if self.over:
            lines[0] += f", {about}{self.over:,} over"
        for block in self.blocks:
            lines.append(
                f"{block.form.value:<11} {block.size:>9,} / {block.base_size:>9,}  "
                f"{block.priority.display:<10} {block.type} {block.description!r}"
            )
            lines += [f"{'':<11} {sentence}" for sentence in block.why]
        return "\n".join(lines)

    def _digested(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": {"mode": self.mode.value, "verbosity": self.verbosity.value, "soft": self.soft},
            "budget": self.budget,
            "tokenizer": self.tokenizer.to_dict(),
            "inputs": [
                [result.index, result.priority.display, block_digest(block)]
                for result, block in zip(self.blocks, self.inputs, strict=True)
            ],
            "decisions": [
                [result.index, result.form.value, result.base_size, result.size] for result in self.blocks
            ],
            "merged": [line.to_dict() for line in self.merged],
            "emitted": text_digest(*self.pieces).hex(),
        }


def block_digest(block: Block) -> str:
    """SHA-256 (hex) over the type and every field of a block."""
    digest = hashlib.sha256()
    pending: list[object] = [block]
    while pending:
        value = pending.pop()
        if is_dataclass(value) and not isinstance(value, type):
            pending += [getattr(value, f.name) for f in reversed(fields(value))]
            value = type(value).__name__
        elif isinstance(value, tuple):
            pending += reversed(value)
            value = len(value)
        data = (
            value
            if isinstance(value, bytes)
            else ("" if value is None else str(value)).encode("utf-8", "surrogatepass")
        )
        digest.update(f"{type(value).__name__}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()
