"""The whole that blocks make: their forms, the lines for merged ones, and the markup around it all."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tokenbox.compose.linear import PricedWhole
from tokenbox.compose.pricing import exact_whole
from tokenbox.content.block_kinds import Priority
from tokenbox.content.section import Section
from tokenbox.engine.ladder import SET_ASIDE, Form
from tokenbox.errors import ContextCriticalOverflow
from tokenbox.render.markup import Framed
from tokenbox.render.placeholders import block_description, block_label, merged_placeholder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.compose.block_forms import BlockForms
    from tokenbox.compose.parts import Parts


class BlockWhole:
    """Fulfils ``engine.ladder.Whole``; the joins are priced as those of sections are.

    The parts: what opens the whole, the blocks, a line per class that is set aside, what closes it.
    """

    def __init__(self, forms: BlockForms, priorities: Sequence[Priority]) -> None:
        self.forms = forms
        self.priorities = priorities
        self.parts: Parts
        self.merged: dict[int, list[int]] = {}
        self.lines: dict[int, int] = {}
        self._shown: list[Form] = []

    @property
    def total(self) -> int:
        return self.parts.total

    @property
    def pieces(self) -> tuple[str, ...]:
        """What would be emitted, separators and all; nothing if no block and no line is shown."""
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
        return self.parts.size(1 + i)

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

    def overflow(self, critical: Sequence[int], fixed_load: int, budget: int) -> ContextCriticalOverflow:
        deficit = fixed_load - budget
        change: dict[str, object] = {"change": "raise_budget", "by": deficit, "minimum_budget": fixed_load}
        change["say"] = raise_budget = f"raise the budget by {deficit:,} to {fixed_load:,}"
        around = (0, len(self.parts.texts) - 1)
        part = self.parts.enough_alone([1 + i for i in critical], fixed_load, budget, around)
        if part is not None:
            i = part - 1
            change = {
                "change": "lower_priority",
                "id": self._name(i),
                "size": self.size(i),
                "lose_at_least": deficit,
                "minimum_budget": fixed_load,
                "say": f"give {self._name(i)} ({self.size(i):,} tokens) a lower priority, or {raise_budget}",
            }
        return ContextCriticalOverflow(
            fixed_load=fixed_load,
            budget=budget,
            critical=[(self._name(i), self.size(i)) for i in critical],
            smallest_change=change,
            estimate=not self.forms.counter.tokenizer.identity.exact,
            what="blocks",
        )

    def line_text(self, priority: int) -> str:
        """The line shown for a class."""
        return self.parts.texts[self._place(priority)]

    def _priced(self, sections: Sequence[Section], sizes: Sequence[int]) -> Parts:
        whole = exact_whole(sections, self.forms.markup.separator, self.forms.counter, sizes)
        assert whole is not None  # noqa: S101  # PricedBlockWhole is for tokenizers of which nothing is known
        return whole

    def _name(self, i: int) -> str:
        block = self.forms.blocks[i]
        return f"{block_label(block)} {block_description(block)}"

    def _place(self, priority: int) -> int:
        return 1 + len(self.priorities) + SET_ASIDE.index(priority)

    def _line(self, priority: int) -> str:
        members, markup = self.merged[priority], self.forms.markup
        tokens = sum(self.forms.content_sizes[i] for i in members)
        line = merged_placeholder(Priority(priority).display, len(members), tokens, markup.mode)
        return markup.piece(Framed(line, "", "")).text


class PricedBlockWhole(BlockWhole):
    """Where nothing is known of the tokenizer: counted anew at each reset, conservative from there on.

    ``reserve`` is added to every total: by how much the emitted whole was over when it was counted.
    """

    def __init__(self, forms: BlockForms, priorities: Sequence[Priority], reserve: int) -> None:
        super().__init__(forms, priorities)
        self.reserve = reserve

    def _priced(self, sections: Sequence[Section], sizes: Sequence[int]) -> Parts:
        counter, separator = self.forms.counter, self.forms.markup.separator
        whole = PricedWhole(sections, separator, counter, 0, sizes)
        text = separator.join(section.content for section in sections if section.content)
        whole.correction = counter.whole(text) - whole.total + self.reserve
        return whole
