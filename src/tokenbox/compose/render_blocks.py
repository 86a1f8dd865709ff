"""Blocks and a budget in, their rendering and its record out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose.block_forms import BlockForms, shows_content
from tokenbox.compose.block_record import BlockLayout, BlockResult, MergedLine, Verbosity
from tokenbox.compose.block_whole import BlockWhole, PricedBlockWhole
from tokenbox.compose.counting import Counter
from tokenbox.compose.pricing import checked_total
from tokenbox.compose.seamed import NotSeamable
from tokenbox.content.block_kinds import BlockType, Priority
from tokenbox.content.blocks import AnnotationBlock, resolve_priorities
from tokenbox.content.section import MAX_INTEGER
from tokenbox.engine.ladder import Climb, Form
from tokenbox.errors import EmptyInput, InvalidBudget, InvalidContent, RenderError, TokenizerError
from tokenbox.render.modes import MARKUPS
from tokenbox.render.placeholders import block_description, block_label
from tokenbox.render.templates import Mode, is_text
from tokenbox.tokenizers.protocol import AdditiveTokenizer
from tokenbox.tokenizers.registry import as_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from tokenbox.compose.block_forms import Summarize
    from tokenbox.content.blocks import Block
    from tokenbox.engine.ladder import LadderStep
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

    Choice = TypeVar("Choice", Mode, Verbosity)


def render_blocks(  # noqa: PLR0913  # keyword options, as of `layout`
    blocks: Iterable[Block],
    tokenizer: str | Tokenizer | Callable[[str], int],
    budget: int | None = None,
    mode: Mode | str = Mode.XML,
    *,
    verbosity: Verbosity | str = Verbosity.ADAPTIVE,
    include_types: Iterable[BlockType | int | str] | None = None,
    soft: bool = False,
    summarize: Summarize | None = None,
    cache: CountCache | None = None,
) -> BlockLayout:
    """Render ``blocks`` for a model, in at most ``budget`` tokens (the priority ladder; docs/layout.md).

    Annotations set priorities and are never rendered. ``include_types``: only these types, as
    :class:`BlockType`, number or name. ``verbosity``: ``full`` and ``summary`` ignore the budget;
    ``adaptive`` gives each block the best form that fits. ``soft`` follows SPEC_08 to the letter: critical
    blocks are full even over the budget. ``summarize`` is asked for the summary of a block that has
    none, at most once and only when it can matter. ``cache`` holds counts between calls.

    Raises :class:`EmptyInput` if nothing is left to show, ``ContextCriticalOverflow`` if the critical blocks
    alone are over a hard budget, :class:`InvalidContent` if a block is to be shown in full that is not
    UTF-8, and :class:`InvalidBudget`.
    """
    checked_budget, given = _checked_budget(budget), list(blocks)
    markup = MARKUPS[_chosen(Mode, mode)]
    wanted = None if include_types is None else frozenset(map(_type_id, include_types))
    indices = [
        i
        for i, block in enumerate(given)
        if not isinstance(block, AnnotationBlock) and (wanted is None or block.type_id in wanted)
    ]
    if not indices:
        raise EmptyInput(
            "there is no block to render. Annotations are not rendered"
            + ("." if wanted is None else ", and none is of the types asked for."),
            blocks=len(given),
        )
    all_priorities = resolve_priorities(given)
    priorities = [all_priorities[i] for i in indices]
    counter = Counter(as_tokenizer(tokenizer), cache)
    forms = BlockForms([given[i] for i in indices], indices, markup, counter, summarize)
    plan = _Plan(forms, indices, priorities, checked_budget, _chosen(Verbosity, verbosity), soft)
    return plan.exact() or plan.conservative()


class _Plan:
    """What is to be rendered, and the two ways of pricing it."""

    def __init__(  # the options of `render_blocks`, checked
        self,
        forms: BlockForms,
        indices: Sequence[int],
        priorities: Sequence[Priority],
        budget: int | None,
        verbosity: Verbosity,
        soft: bool,  # noqa: FBT001
    ) -> None:
        self.forms = forms
        self.indices = indices
        self.priorities = priorities
        self.budget = budget
        self.verbosity = verbosity
        self.soft = soft

    def exact(self) -> BlockLayout | None:
        """The layout, priced exactly; None if the tokenizer or these texts do not allow it."""
        tokenizer = self.forms.counter.tokenizer
        if not isinstance(tokenizer, AdditiveTokenizer) and getattr(tokenizer, "cuts", None) is None:
            return None
        whole = BlockWhole(self.forms, self.priorities)
        try:
            forms, steps = self._decide(whole)
            pieces = whole.pieces
            # Where this fails, the cuts claimed for the vocabulary do not hold on these texts.
            if pieces and whole.total != checked_total(whole.parts, pieces):
                return None
        except NotSeamable:
            return None
        return self._recorded(whole, forms, steps, pieces, whole.total)

    def conservative(self) -> BlockLayout:
        """The layout with joins priced conservatively; the count of what is emitted decides."""
        reserve, least = 0, 1
        while True:
            whole = PricedBlockWhole(self.forms, self.priorities, reserve)
            forms, steps = self._decide(whole)
            pieces = whole.pieces
            total = self.forms.counter.whole("".join(pieces))
            over = 0 if self.budget is None or not self._hard else total - self.budget
            if over <= 0:
                return self._recorded(whole, forms, steps, pieces, total)
            if set(forms) <= {Form.FULL, Form.OMITTED} and not self._can_yield(forms):
                name = self.forms.counter.tokenizer.identity.name
                raise TokenizerError(
                    f"the counter {name} is not consistent: the critical "
                    f"blocks alone fitted the budget of {self.budget:,}; now the same text is {total:,}. "
                    "A count must depend on the text only."
                )
            # The step doubles, so that a counter that punishes every guess still ends the search soon.
            reserve += max(over, least)
            least *= 2

    @property
    def _hard(self) -> bool:
        return self.verbosity is Verbosity.ADAPTIVE and not self.soft

    def _can_yield(self, forms: Sequence[Form]) -> bool:
        return any(
            form is Form.FULL and priority is not Priority.CRITICAL
            for form, priority in zip(forms, self.priorities, strict=True)
        )

    def _decide(self, whole: BlockWhole) -> tuple[list[Form], list[LadderStep]]:
        if self.verbosity is Verbosity.ADAPTIVE and self.budget is not None:
            climb = Climb(self.priorities, self.budget, whole)
            if self.soft:
                climb.soft()
            else:
                climb.hard()
            return climb.forms, climb.steps
        summaries = self.verbosity is Verbosity.SUMMARY
        forms = [
            Form.SUMMARY if summaries and self.forms.has(i, Form.SUMMARY, MAX_INTEGER) else Form.FULL
            for i in range(len(self.priorities))
        ]
        whole.reset(forms)
        return forms, []

    def _recorded(
        self,
        whole: BlockWhole,
        forms: Sequence[Form],
        log: Sequence[LadderStep],
        pieces: tuple[str, ...],
        total: int,
    ) -> BlockLayout:
        if not pieces:
            raise EmptyInput(
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
            mode=self.forms.markup.mode,
            verbosity=self.verbosity,
            soft=self.soft,
            tokenizer=self.forms.counter.tokenizer.identity,
            pricing=whole.parts.pricing,
            summarized=tuple(sorted(self.forms.summarized)),
        )


def _checked_budget(budget: object) -> int | None:
    if budget is None:
        return None
    if type(budget) is not int or not 0 <= budget <= MAX_INTEGER:
        raise InvalidBudget(
            f"a budget is a whole number of tokens, 0 or more, not {budget!r}.", budget=repr(budget)
        )
    return budget


def _chosen(choices: type[Choice], value: str) -> Choice:
    try:
        return choices(value)
    except ValueError:
        names = ", ".join(choice.value for choice in choices)
        raise RenderError(f"{choices.__name__.lower()} is one of {names}, not {value!r}.") from None


def _type_id(value: object) -> int:
    """The number of a block type given as such, or by name."""
    if isinstance(value, str):
        try:
            return BlockType[value.upper().replace("-", "_")].value
        except KeyError:
            names = ", ".join(kind.name for kind in BlockType)
            raise RenderError(f"no block type is called {value!r}. There are: {names}.") from None
    if isinstance(value, int) and not isinstance(value, bool) and value in range(256):
        return int(value)
    raise RenderError(f"a block type is a name or a number up to 255, not {value!r}.")
