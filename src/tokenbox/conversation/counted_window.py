"""The window of a conversation whose sizes a counter gives, and whose results can be shown shorter.

The one code path of ``fit``, :class:`~tokenbox.Conversation`, the shell and the gateway: the engine decides
on sizes, the session of the counter has the true total, and here the texts are written. What is shown
shorter stays known by its handle, the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.exchanges import Grouping
from tokenbox.content.lenses.lines import ends_tokens
from tokenbox.content.message import InvalidMessage
from tokenbox.content.results import cuttable_texts, result_texts, with_texts
from tokenbox.engine.reduction import least, plan
from tokenbox.engine.window import (
    LEAST_CUT,
    EvictionPlan,
    Window,
    WindowAction,
    WindowLimits,
    WindowReason,
    WindowStep,
)
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from tokenbox.compose.requests import Count, RunningCount
    from tokenbox.content.items import Item
    from tokenbox.conversation.relevance import ItemText
    from tokenbox.tokenizers.protocol import Tokenizer

# Plans of which the counter is asked, where sizes are estimates.
_TRIES: Final = 16
# What sizes lack is spread anew, over all items, once it is this part of the budget.
_SPREAD_AT: Final = 16
# Rooms that are tried for what a query needs, where the sizes of its pieces are estimates.
_ROOMS: Final = 4
# A cut that turns out larger than it should be is made again, smaller.
_CUTS: Final = 4
HANDLE: Final = 12
"""Digits of a handle that are shown; any unambiguous beginning of one is understood."""


@dataclass(frozen=True, slots=True)
class ShownItem:
    """How an item is shown: the caller's value, or a copy of it with shorter results; and how it was read."""

    value: Any
    item: Item


@dataclass(slots=True)
class CountedWindow:
    """Items as the caller gave them, in an engine's window, counted by a session.

    ``tokenizer`` cuts texts. ``handles``: the marks of what is left out name its handle, for models that are
    offered ``expand`` as a tool.
    """

    session: RunningCount
    tokenizer: Tokenizer = field(default_factory=lambda: get("chars4"))
    handles: bool = False
    window: Window = field(default_factory=Window)
    given: dict[int, ShownItem] = field(default_factory=dict)
    shown: dict[int, ShownItem] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """What each item counted in full when it was counted first, also of those that left."""
    evicted: dict[int, ShownItem] = field(default_factory=dict)
    """What left at the last enforcement, as it was given."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Texts by their handles: results that are shown shorter."""
    _grouping: Grouping = field(default_factory=Grouping)
    _names: dict[str | None, str] = field(default_factory=dict)
    _share: int = 0
    _uncounted: list[int] = field(default_factory=list)
    _forms: dict[tuple[int, int | None], tuple[ShownItem, int] | None] = field(default_factory=dict)

    # What comes and goes ----------------------------------------------------------------------------------

    def add(self, value: Any, item: Item) -> int:  # noqa: ANN401  # the caller's own object
        """Take in an item, which is counted when it has to be: its number."""
        number = self._grouping.take_into(self.window, item, 0)
        self.given[number] = self.shown[number] = ShownItem(value, item)
        self._names.update((call.id, call.name) for message in item.messages for call in message.tool_calls)
        self._uncounted.append(number)
        return number

    def drop(self, number: int) -> tuple[int, ...]:
        """Take an item out, with what belongs to it: the numbers that left."""
        gone = self.window.drop(number)
        self.session.remove([one for one in gone if one not in self._uncounted])
        self._uncounted = [one for one in self._uncounted if one not in gone]
        self._forget(gone)
        return gone

    def settle(self) -> Count:
        """Count what was not counted so far: the count of the request. Raises a ``TokenizerError``."""
        while self._uncounted:
            number = self._uncounted[0]
            self.session.add(number, self.shown[number].item)
            del self._uncounted[0]
            self.sizes[number] = self.session.size(number)
            self.window.change(number, self.sizes[number] + self._share)
        count = self.session.count()
        self.window.base += count.total - self.window.total
        return count

    def _spread_over(self, total: int, budget: int) -> None:
        """Where sizes are estimates, give each item an equal share of what they lack, or have too much.

        Texts lack their markers; items counted alone have what a whole request has once. So the first plan is
        near what fits.
        """
        number_of = len(self.window.sizes)
        if not number_of:
            return
        bare = self.window.total - self.window.base - self._share * number_of
        share = (total - bare) // number_of
        lacking = total - bare - self._share * number_of
        if 0 <= lacking < max(number_of, budget // _SPREAD_AT):
            return
        if share < 0:
            share = max(share, self._share - min(self.window.sizes.values()))
        for number in self.window.sizes:
            self.window.change(number, share - self._share)
            if self.shown[number] is not self.given[number]:
                self.window.change_full(number, self.window.full_size(number) + share - self._share)
        self._share = share

    def count_with(self, session: RunningCount, tokenizer: Tokenizer) -> None:
        """Another counter counts from now on. If it fails, the one before does."""
        here = [(number, shown) for number, shown in self.shown.items() if number not in self._uncounted]
        for number, shown in here:
            session.add(number, shown.item)
        full = {
            number: session.cost(self.given[number].item)
            for number, shown in here
            if shown is not self.given[number]
        }
        for number, _ in here:
            self.window.change(number, session.size(number) - self.window.size(number))
        for number, size in full.items():
            self.window.change_full(number, size)
        self.session, self.tokenizer, self._share = session, tokenizer, 0
        self.window.forget_steps()
        self._forms.clear()

    # What the limits ask for ------------------------------------------------------------------------------

    def enforce(self, limits: WindowLimits) -> list[WindowStep]:
        """Make the window smaller until the limits hold: the steps; none for a budget that cannot hold."""
        total, budget = self.settle().total, limits.budget
        if not self.session.sums and budget is not None:
            if total <= budget:  # what a step is full by is an estimate, and this is not
                limits = replace(limits, budget=None)
            else:
                self._spread_over(total, budget)
                self.window.base += total - self.window.total
        made = self._plan_that_fits(limits)
        for number, (action, size) in made.sizes.items():
            form = self._form_of(number, action, size)
            self.shown[number] = form
            self.session.replace(number, form.item)
            if form is not self.given[number]:
                self._keep_texts(self.given[number].item)
        if made.left:
            self.session.remove(made.left)
        self.window.commit(made)
        self.evicted = {number: self.given[number] for number in sorted(made.left)}
        self._forget(made.left)
        self.settle()
        return made.steps

    def answer(self, query: str, budget: int) -> list[WindowStep]:
        """Let leave what ``query`` needs least, until the request is within ``budget``: the steps.

        Of long texts only the pieces stay that match the query (:mod:`tokenbox.conversation.relevance`).
        """
        from tokenbox.conversation.relevance import choose, ranked  # noqa: PLC0415  # only a query needs it

        before = self.settle().total
        if before <= budget:
            return []
        parts = self.window.parts()
        texts = [[self._text(number) for number in part] for part in parts]
        order = ranked(texts, query)
        room = budget - (before - sum(self.window.size(number) for part in parts for number in part))
        tries: list[tuple[int, dict[int, ShownItem | None]]] = []
        for _ in range(_ROOMS):
            stay = choose(texts, order, max(0, room))
            changes = self._changed(parts, texts, stay)
            items = {number: None if form is None else form.item for number, form in changes.items()}
            free = budget - self.session.total_with(items)
            tries.append((free, changes))
            if room <= 0 or 0 <= free <= budget // _SPREAD_AT // 2:
                break
            room += free
        # The one that leaves least free, or if all are over the budget, the one that is least over.
        _, best = min(tries, key=lambda one: (one[0] < 0, abs(one[0])))
        return self._make(best, budget)

    def _text(self, number: int) -> ItemText:
        """What an item says, in pieces, with what it counts beside them."""
        from tokenbox.conversation.relevance import ItemText, pieces_of  # noqa: PLC0415

        item, size = self.given[number].item, self.window.size(number)
        texts = cuttable_texts(item)
        said = texts or [message.counted_text for message in item.messages]
        pieces = [pieces_of(text) for text in said]
        beside = None
        if texts and size > LEAST_CUT:
            try:
                beside = self._written(number, [""] * len(texts))[1]
            except InvalidMessage:  # it is shown whole or not at all
                beside = None
        flat = [piece for some in pieces for piece in some]
        return ItemText(flat, size, beside, ends=tuple(accumulate(map(len, pieces))))

    def _changed(
        self, parts: Sequence[Sequence[int]], texts: Sequence[Sequence[ItemText]], stay: Container[int]
    ) -> dict[int, ShownItem | None]:
        """What leaves, as None, and what is shown in part."""
        changes: dict[int, ShownItem | None] = {}
        for place, part in enumerate(parts):
            for number, text in zip(part, texts[place], strict=True):
                if place not in stay:
                    changes[number] = None
                elif (form := self._in_part(number, text)) is not None:
                    changes[number] = form
        return changes

    def _in_part(self, number: int, text: ItemText) -> ShownItem | None:
        """The item with the pieces that were chosen; a result of which none was is masked."""
        made = text.shown()
        if made is None:
            return None
        results = _results(self.given[number].item)
        shown = [said for said, _ in made]
        for at, result in enumerate(results):
            if not made[at][1]:
                shown[at] = self._mark(result.tool_call_id or result.name, result.text)
        form, size = self._written(number, shown)
        return form if size < self.window.size(number) else None

    def _make(self, changes: Mapping[int, ShownItem | None], budget: int) -> list[WindowStep]:
        """Make changes that a query asks for: the steps."""
        before = self.window.total
        cut = {number: form for number, form in changes.items() if form is not None}
        sizes = {
            number: (WindowAction.CUT, self.session.cost(form.item) + self._share)
            for number, form in cut.items()
        }
        self.window.commit(EvictionPlan(before, sizes=sizes))
        for number, form in cut.items():
            self.shown[number] = form
            self.session.replace(number, form.item)
            self._keep_texts(self.given[number].item)
        between = self.settle().total
        gone = [number for number, form in changes.items() if form is None]
        self.session.remove(gone)
        self.window.remove(gone)
        self._forget(gone)
        after = self.settle().total
        steps = [
            WindowStep(
                tuple(cut),
                WindowReason.LESS_WORTH,
                before,
                between,
                before - budget,
                budget,
                WindowAction.CUT,
            )
        ]
        left = [WindowStep(tuple(gone), WindowReason.LESS_WORTH, between, after, between - budget, budget)]
        return (steps if cut else []) + (left if gone else [])

    def least(self, limits: WindowLimits) -> dict[int, int]:
        """What is left once all is done that the limits allow, with its sizes: what must stay."""
        made = least(self.window, limits, self)
        gone = set(made.left)
        planned = {number: size for number, (_, size) in made.sizes.items()}
        return {n: planned.get(n, self.window.size(n)) for n in self.window if n not in gone}

    def _plan_that_fits(self, limits: WindowLimits) -> EvictionPlan:
        """A plan; where sizes are estimates, the smallest one found of which the counter says that it fits.

        Each plan corrects the one before by what the counter said of it, between one that does too little and
        one that does enough.
        """
        made = plan(self.window, limits, self)
        budget = limits.budget
        if self.session.sums or budget is None or self.window.total <= budget:
            return made
        extra, too_little, enough = 0, budget - self.window.total, made.total + self.window.total
        found, fewest = None, 0
        for _ in range(_TRIES):
            over = budget + 1 if made.total > budget else self._total_with(made) - budget
            if over > 0:
                too_little, fewest = extra, len(made.steps)
            else:
                found, enough = made, extra
            if found is not None and len(found.steps) <= fewest + 1:
                break
            extra = extra + over if too_little < extra + over < enough else (too_little + enough) // 2
            if not too_little < extra < enough:
                break
            made = plan(self.window, limits, self, extra)
        if found is not None:
            return found
        smallest = least(self.window, limits, self)
        fits = self._total_with(smallest) <= budget
        return smallest if fits else plan(self.window, replace(limits, budget=None), self)

    def _total_with(self, made: EvictionPlan) -> int:
        """What the counter says that the request counts with the changes of a plan."""
        return self.session.total_with(self._changes(made))

    def _changes(self, made: EvictionPlan) -> Mapping[int, Item | None]:
        changes: dict[int, Item | None] = dict.fromkeys(made.left)
        for number, (action, size) in made.sizes.items():
            changes[number] = self._form_of(number, action, size).item
        return changes

    # Shorter forms of results: what the engine measures -----------------------------------------------------

    def masked(self, number: int) -> int | None:
        """The size of an item whose results are one line each."""
        form = self._form(number, None)
        return None if form is None else form[1]

    def cut(self, number: int, at_most: int) -> int | None:
        """The size of an item whose results keep their head and tail, together at most ``at_most``."""
        form = self._form(number, at_most)
        return None if form is None else form[1]

    def _form_of(self, number: int, action: WindowAction, size: int) -> ShownItem:
        if action is WindowAction.RESTORE:
            return self.given[number]
        if action is WindowAction.MASK:
            form = self._form(number, None)
        else:
            sizes = (form for (of, _), form in self._forms.items() if of == number and form is not None)
            form = next(form for form in sizes if form[1] == size)
        assert form is not None  # noqa: S101  # the engine was told of its size
        return form[0]

    def _form(self, number: int, at_most: int | None) -> tuple[ShownItem, int] | None:
        """The item masked, or cut to ``at_most``, with its size; None where that cannot be."""
        key = number, at_most
        if key not in self._forms:
            try:
                self._forms[key] = self._masked(number) if at_most is None else self._cut(number, at_most)
            except InvalidMessage:  # an object whose results cannot be rewritten stays as it is, or leaves
                self._forms[key] = None
        return self._forms[key]

    def _masked(self, number: int) -> tuple[ShownItem, int]:
        item = self.given[number].item
        texts = [self._mark(message.tool_call_id or message.name, message.text) for message in _results(item)]
        return self._written(number, texts)

    def _mark(self, call: str | None, text: str) -> str:
        about = "" if self.tokenizer.identity.exact else "~"
        name = self._names.get(call, call) or "a tool"
        handle = f"; expand {handle_of(text)[:HANDLE]}" if self.handles else ""
        return f"[result of {name}, {about}{self.tokenizer.count(text):,} tokens, left out{handle}]"

    def _cut(self, number: int, at_most: int) -> tuple[ShownItem, int] | None:
        texts = result_texts(self.given[number].item)
        sizes = [self.tokenizer.count(text) for text in texts]
        room = at_most - (self.window.full_size(number) - sum(sizes))
        for _ in range(_CUTS):
            cap = _cap(sorted(sizes), room)
            if cap <= 0:
                return None
            made = self._written(number, [ends_tokens(text, cap, self.tokenizer) for text in texts])
            if made[1] <= at_most:
                return made
            room -= made[1] - at_most
        return None

    def _written(self, number: int, texts: Sequence[str]) -> tuple[ShownItem, int]:
        value, item = with_texts(self.given[number].value, texts)
        return ShownItem(value, item), self.session.cost(item) + self._share

    def _keep_texts(self, item: Item) -> None:
        self.left_out.update((handle_of(text), text) for text in cuttable_texts(item))

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self.given[number], self.shown[number]
        if numbers:
            gone = set(numbers)
            self._forms = {key: form for key, form in self._forms.items() if key[0] not in gone}


def handle_of(text: str) -> str:
    """The handle of what is left out: SHA-256 (hex) of its UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _results(item: Item) -> list[Any]:
    return [message for message in item.messages if message.role in message.RESULT_ROLES]


def _cap(sizes: Sequence[int], room: int) -> int:
    """The largest cap such that ``sizes``, in rising order, each at most the cap, are within ``room``."""
    for place, size in enumerate(sizes):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)
