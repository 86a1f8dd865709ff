"""The forms of blocks: their texts and what these count, each made at most once and only when asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tokenbox.content.blocks import EmbeddingRefBlock, ImageBlock, PayloadBlock
from tokenbox.engine.ladder import SLACK, Form
from tokenbox.render.markup import Framed
from tokenbox.render.placeholders import block_description
from tokenbox.render.templates import block_body, is_text
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from tokenbox.compose.counting import Counter
    from tokenbox.content.blocks import Block
    from tokenbox.render.markup import Markup
    from tokenbox.tokenizers.cuts import CutRules

    class Summarize(Protocol):
        """Makes the summary of a block that has none of its own, once it is needed."""

        def __call__(self, index: int, room: int, /) -> str | None:
            """The summary of block ``index`` of the list that was given; None if there is none.

            ``room`` tokens are free for it, its markup being there already: a summary that needs more will
            not be shown, so it need not be made.
            """
            ...


# Characters of content that are decoded and counted at a time.
_BATCH = 8_000_000
# Characters up to a cut beyond which a form is simply counted.
_MAX_WINDOW = 4096
# What is no text is shown by no tokenizer; the reference takes four bytes for a token.
_BYTES_PER_TOKEN = 4


class _Windows(NamedTuple):
    """A form's count is ``base``, and each of ``added`` counted, and without each of ``taken`` counted."""

    base: int
    added: tuple[str, ...]
    taken: tuple[str, ...]


class BlockForms:
    """Every form of every block, in one mode, counted by one tokenizer.

    ``content_sizes`` are the counts of the contents without markup: the numbers in placeholders.
    ``indices`` are the places of the blocks in the list that was given. ``summarized``: those whose summary
    was made for the asking.
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
        self.content_sizes = list(_content_sizes(blocks, counter))
        self._indices = indices
        self._summarize = summarize
        self.summarized: list[int] = []
        self._asked: set[int] = set()
        self._pieces: dict[tuple[int, Form], Framed] = {}
        self._sizes: dict[tuple[int, Form], int] = {}
        self._summary_markups: list[int] = []
        self._rules = _usable_cuts(counter)

    def has_already(self, i: int, form: Form) -> bool:
        return form is not Form.SUMMARY or self.blocks[i].summary is not None

    def has(self, i: int, form: Form, room: int) -> bool:
        if self.has_already(i, form):
            return True
        if self._summarize is None or i in self._asked:
            return False
        self._asked.add(i)
        summary = self._summarize(self._indices[i], room - self._summary_markup(i) + SLACK)
        if summary is not None:
            self.summarized.append(self._indices[i])
            self.blocks[i] = replace(self.blocks[i], summary=summary)
        return summary is not None

    def at_least(self, i: int, form: Form) -> int:
        """What the form counts, without the markup where it has not been rendered yet."""
        if form is Form.FULL:
            return self.content_sizes[i] if is_text(self.blocks[i]) else 0
        if form is Form.SUMMARY and self.has_already(i, form):
            return self._size(i, form)
        if form is Form.SUMMARY and self._summarize is not None and i not in self._asked:
            return self._summary_markup(i)
        return self._size(i, form) if form is Form.PLACEHOLDER else 0

    def prepare(self, shown: Iterable[tuple[int, Form]]) -> None:
        """Count many forms together."""
        windows = {key: self._windows(*key) for key in shown if key not in self._sizes}
        self.counter.count_small([text for w in windows.values() for text in (*w.added, *w.taken)])
        for key, w in windows.items():
            self._sizes[key] = self._sum(w)

    def text_and_size(self, i: int, form: Form) -> tuple[str, int]:
        """The form as a piece of the whole, and what it counts; nothing for a form that shows nothing."""
        if form in (Form.MERGED, Form.OMITTED):
            return "", 0
        size, text = self._size(i, form), self._piece(i, form).text
        self._pieces[i, form] = Framed("", text, "")  # counted, so its parts are not needed any more
        return text, size

    def forget(self, i: int, form: Form) -> None:
        """Let go of the text of a form that will not be shown; what it counts stays known."""
        self._pieces.pop((i, form), None)

    def _summary_markup(self, i: int) -> int:
        """What the markup of a summary counts. All are counted together, when one is first asked for."""
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
        # An image that is no text cannot be shown to a model that reads text.
        if form is Form.PLACEHOLDER or not shows_content(block):
            return self.markup.placeholder(block, self.content_sizes[i])
        return self.markup.full(block)

    def _windows(self, i: int, form: Form) -> _Windows:
        """How the form is counted: around its markup only, where its content has been counted."""
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
    """Whether the full form shows the content: not that of an image which is no text."""
    return not isinstance(block, ImageBlock) or is_text(block)


def _usable_cuts(counter: Counter) -> CutRules | None:
    """The cuts by which a form's count follows from its content's; None where counting is as good."""
    tokenizer = counter.tokenizer
    if isinstance(tokenizer, AdditiveTokenizer):
        return None
    rules: CutRules | None = getattr(tokenizer, "cuts", None)
    return rules


def _content_sizes(blocks: Sequence[Block], counter: Counter) -> Iterator[int]:
    """The count of each content, in batches, so that not all are decoded at a time."""
    batch: list[str] = []
    sizes: list[int | None] = []
    characters = 0
    for block in blocks:
        if is_text(block):
            text = block_description(block) if isinstance(block, EmbeddingRefBlock) else block_body(block)
            batch.append(text)
            sizes.append(None)
            characters += len(text)
        else:
            assert isinstance(block, PayloadBlock)  # noqa: S101  # all others are text
            sizes.append(max(1, len(block.payload) // _BYTES_PER_TOKEN))
        if characters > _BATCH:
            yield from _filled(sizes, counter.count_all(batch))
            batch, sizes, characters = [], [], 0
    yield from _filled(sizes, counter.count_all(batch))


def _filled(sizes: Sequence[int | None], counts: Sequence[int]) -> Iterator[int]:
    """``sizes`` with the next of ``counts`` in place of each None."""
    following = iter(counts)
    return (next(following) if size is None else size for size in sizes)
