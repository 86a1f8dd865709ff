"""Rendering of blocks within a budget, with a record of the decision for each block."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from tokenbox.compose.block_whole import BlockForms, BlockWhole, shows_content
from tokenbox.compose.counting import Counter
from tokenbox.compose.seamed import NotSeamable, checked_total
from tokenbox.content.block_kinds import BlockType, Priority
from tokenbox.content.blocks import AnnotationBlock, Block, resolve_priorities, wrong_field
from tokenbox.content.canonical import record_digest
from tokenbox.engine.ladder import Form, LadderRun, LadderStep
from tokenbox.errors import (
    EmptyInput,
    InvalidContent,
    NothingFits,
    RenderError,
    TokenizerError,
    one_of,
    several,
    shown,
)
from tokenbox.integers import MAX_INTEGER, token_budget
from tokenbox.records import to_record
from tokenbox.render.html import Pictured, in_words
from tokenbox.render.registry import find_renderer
from tokenbox.render.templates import block_description, block_label, is_text
from tokenbox.tokenizers.cache import CountCache, text_digest
from tokenbox.tokenizers.protocol import AdditiveTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from tokenbox.compose.block_whole import Summarize


SCHEMA = "tokenbox.blocks/1"
ALGORITHM = "priority-ladder/1"


class Verbosity(StrEnum):
    """The rule for how much of each block is shown."""

    FULL = "full"
    SUMMARY = "summary"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The decision for one block. ``index``: its position in the given list, counting annotations.

    In tokens: ``base_size`` of its content without markup, ``size`` of the emitted form.
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
        """A sentence for each rule that reduced the block."""
        return tuple(step.why(self.priority.display) for step in self.steps)

    def to_dict(self) -> dict[str, object]:
        return to_record(
            self, "index type description priority form base_size size why", priority=self.priority.display
        )


@dataclass(frozen=True, slots=True)
class MergedLine:
    """One line that replaces ``blocks`` blocks of a priority class, with ``tokens`` of content in all."""

    priority: Priority
    blocks: int
    tokens: int
    size: int

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "priority blocks tokens size", priority=self.priority.display)


@dataclass(frozen=True)
class BlockLayout(Pictured):
    """Rendered blocks. ``total`` is the count of the whole ``text`` with markup.

    ``total <= budget`` for a hard budget (adaptive verbosity, not ``soft``); otherwise ``over`` is the
    excess. ``inputs``: the rendered blocks, with summaries made for them. ``pricing``: how the joins were
    priced during the decisions, ``exact`` or ``conservative``. ``summarized``: the indices of the blocks that
    ``summarize`` summarized. ``pieces``: the parts of ``text``, to write it without a second copy.
    """

    inputs: tuple[Block, ...] = field(repr=False)
    blocks: tuple[BlockResult, ...] = field(repr=False)
    merged: tuple[MergedLine, ...] = field(repr=False)
    log: tuple[LadderStep, ...] = field(repr=False)
    pieces: tuple[str, ...] = field(repr=False)
    total: int
    budget: int | None
    mode: str
    verbosity: Verbosity
    soft: bool
    tokenizer: TokenizerIdentity
    pricing: str
    summarized: tuple[int, ...] = field(default=(), repr=False)

    @cached_property
    def text(self) -> str:
        """The emitted text."""
        return "".join(self.pieces)

    @property
    def over(self) -> int:
        """The number of tokens over the budget; 0 if there is no budget."""
        return 0 if self.budget is None else max(0, self.total - self.budget)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 (hex) of the RFC 8785 JSON of all inputs of the layout and its result."""
        return record_digest(self._digested())

    def to_dict(self) -> dict[str, object]:
        """Return the record as JSON-compatible data."""
        return to_record(
            self,
            "schema budget total over mode verbosity soft pricing tokenizer blocks merged text digest",
            schema=SCHEMA,
        )

    def explain(self) -> str:
        """Return one line per block: its form, its size and base size, and the reasons for a reduced form."""
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

    def __repr__(self) -> str:
        forms = [block.form.value for block in self.blocks]
        return in_words(
            "BlockLayout", self.total, self.budget, self.tokenizer.name, forms, exact=self.tokenizer.exact
        )

    def _digested(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "algorithm": ALGORITHM,
            "options": {"mode": self.mode, "verbosity": self.verbosity.value, "soft": self.soft},
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
    """Return the SHA-256 (hex) of the type and all fields of a block."""
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


def render_blocks(  # noqa: PLR0913  # keyword options, as of `layout`
    blocks: Iterable[Block],
    tokenizer: str | Tokenizer | Callable[[str], int],
    budget: int | None = None,
    mode: str = "xml",
    *,
    verbosity: Verbosity | str = Verbosity.ADAPTIVE,
    include_types: Iterable[BlockType | int | str] | None = None,
    soft: bool = False,
    summarize: Summarize | None = None,
    cache: CountCache | None = None,
) -> BlockLayout:
    """Render blocks as :func:`tokenbox.render_blocks` does, which has the options and errors."""
    checked_budget = None if budget is None else token_budget(budget)
    given = checked_blocks(blocks)
    markup = find_renderer(mode)
    wanted = None if include_types is None else frozenset(map(_type_id, include_types))
    indices = [
        i
        for i, block in enumerate(given)
        if not isinstance(block, AnnotationBlock) and (wanted is None or block.type_id in wanted)
    ]
    if not indices:
        raise EmptyInput(
            "there is no block to render. Annotations are not rendered"
            + ("." if wanted is None else ", and no block has a requested type."),
            blocks=len(given),
        )
    counter = Counter(as_tokenizer(tokenizer), cache)
    try:
        all_priorities = resolve_priorities(given)
        priorities = [all_priorities[i] for i in indices]
        forms = BlockForms([given[i] for i in indices], indices, markup, counter, summarize)
        shown_as = one_of(Verbosity, "verbosity", verbosity, RenderError)
        plan = _Plan(forms, indices, priorities, checked_budget, shown_as, soft)
        return plan.exact() or plan.conservative()
    except (AttributeError, TypeError):
        for place, block in enumerate(given):
            if (wrong := wrong_field(block)) is not None:
                name = type(block).__name__
                raise RenderError(f"blocks[{place}] is a {name} whose {wrong}.", index=place) from None
        raise


@dataclass(frozen=True, slots=True)
class _Plan:
    """The blocks and the checked options of one rendering, with its two kinds of pricing."""

    forms: BlockForms
    indices: Sequence[int]
    priorities: Sequence[Priority]
    budget: int | None
    verbosity: Verbosity
    soft: bool

    def exact(self) -> BlockLayout | None:
        """Return the layout with exact pricing; None if the tokenizer or these texts do not allow it."""
        tokenizer = self.forms.counter.tokenizer
        if not isinstance(tokenizer, AdditiveTokenizer) and getattr(tokenizer, "cuts", None) is None:
            return None
        whole = BlockWhole(self.forms, self.priorities, reserve=None)
        try:
            forms, steps, _ = self._decide(whole)
            pieces = whole.pieces
            # If this fails, the cuts claimed for the vocabulary do not hold on these texts.
            if pieces and whole.total != checked_total(whole.parts, pieces):
                return None
        except NotSeamable:
            return None
        return self._recorded(whole, forms, steps, pieces, whole.total)

    def conservative(self) -> BlockLayout:
        """Return the layout with conservative pricing of joins. The count of the emitted text decides."""
        reserve, least = 0, 1
        while True:
            whole = BlockWhole(self.forms, self.priorities, reserve)
            forms, steps, limit = self._decide(whole)
            pieces = whole.pieces
            total = self.forms.counter.whole("".join(pieces))
            over = 0 if limit is None else total - limit
            if over <= 0:
                return self._recorded(whole, forms, steps, pieces, total)
            full = {p for p, form in zip(self.priorities, forms, strict=True) if form is Form.FULL}
            if set(forms) <= {Form.FULL, Form.OMITTED} and full <= {Priority.CRITICAL}:
                name = self.forms.counter.tokenizer.identity.name
                raise TokenizerError(
                    f"the counter {name} is not consistent: the critical "
                    f"blocks alone fitted the budget of {self.budget:,}; now the same text is {total:,}. "
                    "A count must depend on the text only."
                )
            # The step doubles, so that the search ends soon even with an adverse counter.
            reserve += max(over, least)
            least *= 2

    def _decide(self, whole: BlockWhole) -> tuple[list[Form], list[LadderStep], int | None]:
        """Return the forms, the steps, and the limit of the whole (None if the budget is ignored)."""
        if self.verbosity is Verbosity.ADAPTIVE and self.budget is not None:
            run = LadderRun(self.priorities, self.budget, whole)
            if self.soft:
                run.soft()
            else:
                run.hard()
            return run.forms, run.steps, run.limit
        summaries = self.verbosity is Verbosity.SUMMARY
        forms = [
            Form.SUMMARY if summaries and self.forms.has(i, Form.SUMMARY, MAX_INTEGER) else Form.FULL
            for i in range(len(self.priorities))
        ]
        whole.reset(forms)
        return forms, [], None

    def _recorded(
        self,
        whole: BlockWhole,
        forms: Sequence[Form],
        log: Sequence[LadderStep],
        pieces: tuple[str, ...],
        total: int,
    ) -> BlockLayout:
        if not pieces:
            raise NothingFits(
                f"no block fits a budget of {self.budget:,} tokens, not even as a line that says what was "
                "left out. Raise the budget.",
                budget=self.budget,
                blocks=len(forms),
            )
        steps: dict[int, list[LadderStep]] = {}
        for step in log:
            steps.setdefault(step.block, []).append(step)
        results = []
        for i, (form, block) in enumerate(zip(forms, self.forms.blocks, strict=True)):
            shown = Form.PLACEHOLDER if form is Form.FULL and not shows_content(block) else form
            if shown is Form.FULL and not is_text(block):
                raise InvalidContent(
                    f"the content of block {self.indices[i]} ({block_label(block)} "
                    f"{block_description(block)!r}) is not UTF-8, so it cannot be shown as text. "
                    "Leave the block out, give it a summary, or decode it first.",
                    index=self.indices[i],
                )
            results.append(
                BlockResult(
                    index=self.indices[i],
                    type=block_label(block),
                    description=block_description(block),
                    priority=self.priorities[i],
                    form=shown,
                    base_size=self.forms.content_sizes[i],
                    size=whole.size(i),
                    steps=tuple(steps.get(i, ())),
                )
            )
        return BlockLayout(
            inputs=tuple(self.forms.blocks),
            blocks=tuple(results),
            merged=tuple(
                MergedLine(
                    Priority(priority),
                    len(whole.merged[priority]),
                    sum(self.forms.content_sizes[i] for i in whole.merged[priority]),
                    size,
                )
                for priority, size in sorted(whole.lines.items())
            ),
            log=tuple(log),
            pieces=pieces,
            total=total,
            budget=self.budget,
            mode=self.forms.markup.name,
            verbosity=self.verbosity,
            soft=self.soft,
            tokenizer=self.forms.counter.tokenizer.identity,
            pricing=whole.parts.pricing,
            summarized=tuple(sorted(self.forms.summarized)),
        )


def checked_blocks(blocks: object) -> list[Block]:
    """Return ``blocks`` as a list. Raises :class:`RenderError` for anything that is not a block."""
    given = several(blocks)
    if given is None:
        raise RenderError(f"blocks is a list of blocks, not {type(blocks).__name__}.")
    for place, block in enumerate(given):
        if not isinstance(block, Block):
            raise RenderError(
                f"blocks[{place}] is not a block such as CodeBlock, but {type(block).__name__}.", index=place
            )
    return given


def _type_id(value: object) -> int:
    """Return the number of a block type from its number or name."""
    if isinstance(value, str):
        try:
            return BlockType[value.upper().replace("-", "_")].value
        except KeyError:
            names = ", ".join(kind.name for kind in BlockType)
            raise RenderError(f"no block type is called {value!r}. There are: {names}.") from None
    if isinstance(value, int) and not isinstance(value, bool) and value in range(256):
        return int(value)
    raise RenderError(f"a block type is a name or a number up to 255, not {shown(value)}.")
