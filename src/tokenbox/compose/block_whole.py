"""The whole of a block layout: the forms of blocks, the lines for merged blocks, and the surrounding markup.

The text of a form and its count are computed lazily, at most once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tokenbox.compose.parts import Parts, PricedWhole, spread
from tokenbox.compose.seamed import exact_whole
from tokenbox.content.block_kinds import Priority
from tokenbox.content.blocks import Block, EmbeddingRefBlock, ImageBlock, PayloadBlock
from tokenbox.content.section import Section
from tokenbox.engine.ladder import SET_ASIDE, SLACK, Form
from tokenbox.errors import ContextCriticalOverflow, RenderError, named, plural, raise_budget, shown
from tokenbox.render.templates import (
    Framed,
    Markup,
    block_body,
    block_description,
    block_label,
    is_text,
    merged_placeholder,
)
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.tokenizers.patterns import CutRules

    class Summarize(Protocol):
        """A function that summarizes a block without a summary of its own, called when one is needed."""

        def __call__(self, index: int, room: int, /) -> str | None:
            """Return a summary of block ``index`` of the given list, or None.

            ``room``: the free tokens, excluding the summary's markup. A longer summary will not be shown, so
            it need not be made.
            """
            ...


# The number of characters of content to decode and count at a time.
_BATCH = 8_000_000
# The maximum number of characters up to a cut. Beyond it the whole form is counted.
_MAX_WINDOW = 4096
# The size of binary content, which no tokenizer can count, as in the reference implementation.
_BYTES_PER_TOKEN = 4


class _Windows(NamedTuple):
    """A count as a sum: ``base``, plus the counts of ``added``, minus the counts of ``taken``."""

    base: int
    added: tuple[str, ...]
    taken: tuple[str, ...]


class BlockForms:
    """All forms of all blocks in one mode, counted by one tokenizer.

    ``content_sizes``: the counts of the contents without markup, as shown in placeholders. ``indices``: the
    positions of the blocks in the given list. ``summarized``: the positions of blocks that ``summarize``
    has summarized.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        indices: Sequence[int],
        markup: Markup,
        counter: Counter,
        summarize: Summarize | None,
    ) -> None:
        self.blocks = list(blocks)
        self.markup = markup
        self.counter = counter
        self.content_sizes = _content_sizes(blocks, counter)
        self._indices = indices
        self._summarize = summarize
        self.summarized: list[int] = []
        self._asked: set[int] = set()
        self._pieces: dict[tuple[int, Form], Framed] = {}
        self._sizes: dict[tuple[int, Form], int] = {}
        self._summary_markups: list[int] = []
        # The cuts that derive a form's count from its content's; None if counting it is as fast.
        additive = isinstance(counter.tokenizer, AdditiveTokenizer)
        self._rules: CutRules | None = None if additive else getattr(counter.tokenizer, "cuts", None)

    def has_already(self, i: int, form: Form) -> bool:
        return form is not Form.SUMMARY or self.blocks[i].summary is not None

    def has(self, i: int, form: Form, room: int) -> bool:
        if self.has_already(i, form):
            return True
        if self._summarize is None or i in self._asked:
            return False
        self._asked.add(i)
        summary = self._summarize(self._indices[i], room - self._summary_markup(i) + SLACK)
        if not isinstance(summary, str | None):
            raise RenderError(
                f"summarize returned {shown(summary)} for block {self._indices[i]}. "
                "Return the summary as text, or None.",
                index=self._indices[i],
            )
        if summary is not None:
            self.summarized.append(self._indices[i])
            self.blocks[i] = replace(self.blocks[i], summary=summary)
        return summary is not None

    def at_least(self, i: int, form: Form) -> int:
        """Return a lower bound of the form's count: without the markup if it has not been rendered yet."""
        if form is Form.FULL:
            return self.content_sizes[i] if is_text(self.blocks[i]) else 0
        if form is Form.SUMMARY and self.has_already(i, form):
            return self._size(i, form)
        if form is Form.SUMMARY and self._summarize is not None and i not in self._asked:
            return self._summary_markup(i)
        return self._size(i, form) if form is Form.PLACEHOLDER else 0

    def prepare(self, shown: Iterable[tuple[int, Form]]) -> None:
        """Count many forms in one batch."""
        windows = {key: self._windows(*key) for key in shown if key not in self._sizes}
        self.counter.count_small([text for w in windows.values() for text in (*w.added, *w.taken)])
        for key, w in windows.items():
            self._sizes[key] = self._sum(w)

    def text_and_size(self, i: int, form: Form) -> tuple[str, int]:
        """Return the form's text with markup, and its count; an empty text for a form that is not shown."""
        if form in (Form.MERGED, Form.OMITTED):
            return "", 0
        size, text = self._size(i, form), self._piece(i, form).text
        self._pieces[i, form] = Framed("", text, "")  # already counted, so its parts are no longer needed
        return text, size

    def forget(self, i: int, form: Form) -> None:
        """Free the text of a form that will not be shown. Its count stays known."""
        self._pieces.pop((i, form), None)

    def _summary_markup(self, i: int) -> int:
        """Return the count of a summary's markup. All are counted in one batch, on first use."""
        if not self._summary_markups:
            texts = [self.markup.piece(self.markup.summary(block, "")).text for block in self.blocks]
            self.counter.count_small(texts)
            self._summary_markups = list(map(self.counter.small, texts))
        return self._summary_markups[i]

    def _size(self, i: int, form: Form) -> int:
        size = self._sizes.get((i, form))
        if size is None:
            size = self._sizes[i, form] = self._sum(self._windows(i, form))
        return size

    def _sum(self, windows: _Windows) -> int:
        small = self.counter.small
        return windows.base + sum(map(small, windows.added)) - sum(map(small, windows.taken))

    def _piece(self, i: int, form: Form) -> Framed:
        piece = self._pieces.get((i, form))
        if piece is None:
            piece = self._pieces[i, form] = self.markup.piece(self._framed(i, form))
        return piece

    def _framed(self, i: int, form: Form) -> Framed:
        block = self.blocks[i]
        if form is Form.SUMMARY and block.summary is not None:
            return self.markup.summary(block, block.summary)
        # A binary image cannot be shown in a text.
        if form is Form.PLACEHOLDER or not shows_content(block):
            return self.markup.placeholder(block, self.content_sizes[i])
        return self.markup.full(block)

    def _windows(self, i: int, form: Form) -> _Windows:
        """Return how to count the form: only around its markup, if its content was counted already."""
        before, body, after = piece = self._piece(i, form)
        if form is not Form.FULL or self._rules is None or not body:
            return _Windows(0, (piece.text,), ())
        first, last = self._rules.first(body), self._rules.last(body)
        if (
            not 0 < first <= last
            or max(first, len(body) - last) > _MAX_WINDOW
            or not is_text(self.blocks[i])
            or body != block_body(self.blocks[i])
        ):
            return _Windows(self.counter.count(piece.text), (), ())
        head, tail = body[:first], body[last:]
        return _Windows(self.content_sizes[i], (before + head, tail + after), (head, tail))


def shows_content(block: Block) -> bool:
    """Return whether the full form shows the content: False for a binary image."""
    return not isinstance(block, ImageBlock) or is_text(block)


def _content_sizes(blocks: Sequence[Block], counter: Counter) -> list[int]:
    """Return the count of each content, in batches, to limit the memory for decoded text."""
    sizes = [0] * len(blocks)
    batch: dict[int, str] = {}
    characters = 0
    for i, block in enumerate(blocks):
        if isinstance(block, PayloadBlock) and not is_text(block):
            sizes[i] = max(1, len(block.payload) // _BYTES_PER_TOKEN)
            continue
        batch[i] = block_description(block) if isinstance(block, EmbeddingRefBlock) else block_body(block)
        characters += len(batch[i])
        if characters > _BATCH:
            spread(batch, counter.count_all(list(batch.values())), sizes)
            batch, characters = {}, 0
    return spread(batch, counter.count_all(list(batch.values())), sizes)


class BlockWhole:
    """The implementation of ``engine.ladder.LadderWhole``. Joins are priced as those of sections.

    Its parts: the opening markup, the blocks, one line per merged priority class, the closing markup.

    ``reserve``: None for exact prices. Otherwise the whole is counted at each reset, and joins are estimated;
    ``reserve`` is the number of tokens by which the emitted text exceeded the budget so far, and is added to
    every total.
    """

    def __init__(self, forms: BlockForms, priorities: Sequence[Priority], reserve: int | None) -> None:
        self.forms = forms
        self.priorities = priorities
        self.reserve = reserve
        self.parts: Parts
        self.merged: dict[int, list[int]] = {}
        self.lines: dict[int, int] = {}
        self._shown: list[Form] = []

    @property
    def total(self) -> int:
        return self.parts.total

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text to emit, in pieces with separators; empty if no block and no line is shown."""
        texts, separator = self.parts.texts, self.forms.markup.separator
        if not any(texts[1:-1]):
            return ()
        shown = (text for text in texts if text)
        return tuple(chain([next(shown)], *((separator, text) for text in shown)))

    def reset(self, forms: Sequence[Form]) -> None:
        markup, small = self.forms.markup, self.forms.counter.small
        self._shown = list(forms)
        self.merged = {priority: [] for priority in SET_ASIDE}
        self.lines = {}
        self.forms.prepare(
            (i, form) for i, form in enumerate(forms) if form not in (Form.MERGED, Form.OMITTED)
        )
        pieces = [
            (markup.start, small(markup.start)),
            *(self.forms.text_and_size(i, form) for i, form in enumerate(forms)),
            *[("", 0)] * len(SET_ASIDE),
            (markup.end, small(markup.end)),
        ]
        sections = [Section("part", text) for text, _ in pieces]
        self.parts = self._priced(sections, [size for _, size in pieces])

    def has(self, i: int, form: Form, room: int) -> bool:
        return self.forms.has(i, form, room)

    def has_already(self, i: int, form: Form) -> bool:
        return self.forms.has_already(i, form)

    def at_least(self, i: int, form: Form) -> int:
        return self.forms.at_least(i, form)

    def size(self, i: int) -> int:
        return self.parts.sizes[1 + i]

    def show(self, i: int, form: Form) -> None:
        self.parts.put(1 + i, *self.forms.text_and_size(i, form))
        if self._shown[i] is Form.FULL:
            self.forms.forget(i, Form.FULL)
        self._shown[i] = form

    def merge(self, i: int) -> None:
        self.show(i, Form.MERGED)
        self.merged[self.priorities[i]].append(i)

    def show_line(self, priority: int, *, shown: bool) -> None:
        self.lines.pop(priority, None)
        text = ""
        if shown:
            text = self._line(priority)
            self.lines[priority] = self.forms.counter.small(text)
        self.parts.put(self._place(priority), text, self.lines.get(priority, 0))

    def fixed_load(self, critical: Sequence[int]) -> int:
        return self.parts.total_of([0, *(1 + i for i in critical), len(self.parts.texts) - 1])

    def overflow(
        self, critical: Sequence[int], fixed_load: int, budget: int, allowance: int = 0
    ) -> ContextCriticalOverflow:
        least = fixed_load - allowance
        change = raised = raise_budget(budget, least)
        if allowance:
            change["say"] = f"{raised['say']}, which soft lets the largest one exceed by {allowance:,}"
        around = (0, len(self.parts.texts) - 1)
        # With an allowance, leaving out one block changes the allowance too, so suggest only the budget.
        part = self.parts.enough_alone([1 + i for i in critical], fixed_load, budget, around)
        if part is not None and not allowance:
            i = part - 1
            change = {
                "change": "lower_priority",
                "id": self._name(i),
                "size": self.size(i),
                "lose_at_least": least - budget,
                "minimum_budget": least,
                "say": (
                    f"give {named(self._name(i))} ({plural(self.size(i), 'token')}) a lower priority, "
                    f"or {raised['say']}"
                ),
            }
        return ContextCriticalOverflow(
            fixed_load=fixed_load,
            budget=budget,
            critical=[(self._name(i), self.size(i)) for i in critical],
            smallest_change=change,
            estimate=not self.forms.counter.tokenizer.identity.exact,
            what="blocks",
        )

    def _priced(self, sections: Sequence[Section], sizes: Sequence[int]) -> Parts:
        counter, separator = self.forms.counter, self.forms.markup.separator
        if self.reserve is None:
            exact = exact_whole(sections, separator, counter, sizes)
            assert exact is not None  # noqa: S101  # other tokenizers have a reserve
            return exact
        whole = PricedWhole(sections, separator, counter, 0, sizes)
        text = separator.join(section.content for section in sections if section.content)
        whole.correction = counter.whole(text) - whole.total + self.reserve
        return whole

    def _name(self, i: int) -> str:
        block = self.forms.blocks[i]
        return f"{block_label(block)} {block_description(block)}"

    def _place(self, priority: int) -> int:
        return 1 + len(self.priorities) + SET_ASIDE.index(priority)

    def _line(self, priority: int) -> str:
        members, markup = self.merged[priority], self.forms.markup
        tokens = sum(self.forms.content_sizes[i] for i in members)
        line = merged_placeholder(Priority(priority).display, len(members), tokens, markup.omitted_many)
        return markup.piece(Framed(line, "", "")).text
