"""A conversation's window with sizes from a counter and results that can be shortened.

``fit``, :class:`~tokenbox.Conversation`, the shell and the gateway all use it: the engine decides by sizes,
the counter's session gives the true total, and :mod:`tokenbox.conversation.result_forms` shortens results.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, cast

from tokenbox.compose.requests import NO_BOUND, Count, RunningCount, checked_count
from tokenbox.content.exchanges import Grouping
from tokenbox.content.message import InvalidMessage, Object
from tokenbox.content.request import Request
from tokenbox.content.results import cuttable_texts, originals, results
from tokenbox.content.unseen import is_seen, unseen_of
from tokenbox.conversation.relevance import ItemText, choose, pieces_of, ranked
from tokenbox.conversation.result_forms import ResultForms, ShownItem, handle_of
from tokenbox.engine.reduction import plan, plan_minimum, plan_restored
from tokenbox.engine.steps import LEAST_CUT, WindowAction, WindowLimits, WindowReason, WindowStep
from tokenbox.engine.window import EvictionPlan, Window
from tokenbox.tokenizers.registry import get

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.tokenizers.protocol import Tokenizer

Frame = tuple[Sequence["Item"], tuple["Object", ...], "Object"]
"""A request without its items: the system prompt before them, tools and other fields."""

# The maximum number of plans checked by the counter if sizes are estimates.
_TRIES: Final = 16
# The error of estimated sizes is spread over all items once it reaches 1/16 of the budget.
_SPREAD_AT: Final = 16
# The maximum number of rooms tried for a query if the sizes of its pieces are estimates.
_ROOMS: Final = 4


@dataclass(slots=True)
class CountedWindow:
    """The caller's items in an engine's window, counted by a session.

    ``tokenizer`` cuts texts. ``handles``: marks of omitted text include its handle, for models that have
    ``expand`` as a tool.
    """

    session: RunningCount
    tokenizer: Tokenizer = field(default_factory=lambda: get("chars4"))
    handles: bool = False
    window: Window = field(default_factory=Window)
    given: dict[int, ShownItem] = field(default_factory=dict)
    shown: dict[int, ShownItem] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """The first full count of each item, including evicted ones."""
    evicted: dict[int, ShownItem] = field(default_factory=dict)
    """The items evicted by the last enforcement, as the caller gave them."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The full texts of shortened results, by their handles."""
    _unseen: set[int | None] = field(default_factory=set)
    """The shown items with input that only the server knows; None if the frame has some."""
    _grouping: Grouping = field(default_factory=Grouping)
    _names: dict[str | None, str] = field(default_factory=dict)
    _share: int = 0
    _uncounted: list[int] = field(default_factory=list)
    # The forms of each item by its number, and by the size to which it was cut.
    _forms: dict[int, dict[tuple[int | None, bool], tuple[ShownItem, int] | None]] = field(
        default_factory=dict
    )

    # Changes by the caller --------------------------------------------------------------------------------

    def frame(self, frame: Frame) -> None:
        """Set the rest of the request: the system prompt before the items, tools and other fields."""
        self.session.frame(*frame)
        self._note(None, seen=unseen_of(Request.of_read(*frame)) is None)

    def add(self, value: Any, item: Item) -> int:  # noqa: ANN401  # the caller's own object
        """Add an item and return its number. It is counted when necessary."""
        number = self._grouping.take_into(self.window, item, 0)
        self.given[number] = self.shown[number] = ShownItem(value, item)
        self._note(number, seen=is_seen(item))
        self._names.update((call.id, call.name) for message in item.messages for call in message.tool_calls)
        self._uncounted.append(number)
        return number

    def drop(self, number: int) -> tuple[int, ...]:
        """Remove an item and its companions. Return the removed numbers."""
        gone = self.window.drop(number)
        self.session.remove([one for one in gone if one not in self._uncounted])
        self._uncounted = [one for one in self._uncounted if one not in gone]
        self._forget(gone)
        return gone

    def settle(self) -> Count:
        """Count new items and return the count of the request. Raises a ``TokenizerError``."""
        while self._uncounted:
            number = self._uncounted[0]
            self.session.add(number, self.shown[number].item)
            del self._uncounted[0]
            self.sizes[number] = self.session.size(number)
            self.window.change(number, self.sizes[number] + self._share)
        count = checked_count(self.session.count())
        self.window.base += count.total - self.window.total
        return replace(count, at_most=NO_BOUND) if self._unseen and not count.exact else count

    def _spread_over(self, total: int, budget: int) -> None:
        """Spread the error of estimated sizes equally over all items, so that the first plan nearly fits.

        Sizes of texts lack the markers; sizes of items counted alone include the overhead of a request. What
        remains is in the base, which no eviction frees, so it must be small beside the budget.
        """
        number_of = len(self.window.sizes)
        if not number_of:
            return
        bare = self.window.total - self.window.base - self._share * number_of
        small = max(1, budget // _SPREAD_AT)
        share, rest = divmod(total - bare, number_of)
        share += rest >= small
        if share == self._share or 0 <= total - bare - self._share * number_of < small:
            return
        if share < 0:
            share = max(share, self._share - min(self.window.sizes.values()))
        for number in self.window.sizes:
            self.window.change(number, share - self._share)
            if self.shown[number] is not self.given[number]:
                self.window.full[number] += share - self._share
        self._share = share
        self.window.base += total - self.window.total

    def uncounted(self) -> CountedWindow:
        """Return the window without its counter, for a copy, which needs its own session."""
        return replace(self, session=cast("RunningCount", None), tokenizer=get("chars4"))

    def resume(self, session: RunningCount, tokenizer: Tokenizer, frame: Frame) -> None:
        """Go on with a new session of the same counter."""
        self._start(session, frame)
        self.session, self.tokenizer = session, tokenizer

    def _start(self, session: RunningCount, frame: Frame) -> list[tuple[int, ShownItem]]:
        """Set up a session with the frame and the counted items, which are returned."""
        session.frame(*frame)
        counted = [(number, shown) for number, shown in self.shown.items() if number not in self._uncounted]
        for number, shown in counted:
            session.add(number, shown.item)
        return counted

    def count_with(self, session: RunningCount, tokenizer: Tokenizer, frame: Frame) -> None:
        """Switch to another counter, and set the frame. If it raises, the present one stays."""
        counted = self._start(session, frame)
        full = {
            number: session.cost(self.given[number].item)
            for number, shown in counted
            if shown is not self.given[number]
        }
        for number, _ in counted:
            self.window.change(number, session.size(number) - self.window.size(number))
        self.window.full |= full
        self.session, self.tokenizer, self._share = session, tokenizer, 0
        self.window.reset_steps()
        self._forms.clear()
        self._note(None, seen=unseen_of(Request.of_read(*frame)) is None)

    # Enforcement of limits --------------------------------------------------------------------------------

    def enforce(self, limits: WindowLimits) -> list[WindowStep]:
        """Reduce the window until the limits are met. Return the steps, none if the budget cannot be met."""
        total, budget = self.settle().total, limits.budget
        if not self.session.sums and budget is not None:
            if total <= budget:  # the total is exact, unlike the sizes by which the engine would decide
                limits = replace(limits, budget=None)
            else:
                self._spread_over(total, budget)
        return self._commit(self._plan_that_fits(limits))

    def restore(self, limits: WindowLimits) -> list[WindowStep]:
        """Restore shortened results as far as the budget has room. Return the steps."""
        made = plan_restored(self.window, limits, self)
        fits = limits.budget is None or self._total_with(made) <= limits.budget
        return self._commit(made) if made.steps and fits else []

    def _commit(self, made: EvictionPlan) -> list[WindowStep]:
        self.evicted = {}
        if not made.steps and made.epoch is None:
            return []
        for number, (action, size) in made.sizes.items():
            form = self._form_of(number, action, size)
            self._show(number, form)
            if form is not self.given[number]:
                self._keep_texts(self.given[number].item)
        if made.evicted_numbers:
            self.session.remove(made.evicted_numbers)
        self.window.commit(made)
        self.evicted = {number: self.given[number] for number in sorted(made.evicted_numbers)}
        self._forget(made.evicted_numbers)
        self.settle()
        return made.steps

    def answer(self, query: str, budget: int) -> list[WindowStep]:
        """Evict the parts that match ``query`` least, until the request is within ``budget``.

        Long texts keep only matching pieces (:mod:`tokenbox.conversation.relevance`). Returns the steps.
        """
        before = self.settle().total
        if before <= budget:
            return []
        if not self.session.sums:
            self._spread_over(before, budget)
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
            if max(room, free) <= 0 or 0 <= free <= budget // _SPREAD_AT // 2:
                break
            room += free
        # The try with the least free room, or, if all are over the budget, with the least excess.
        _, best = min(tries, key=lambda one: (one[0] < 0, abs(one[0])))
        return self._apply(best, budget)

    def _text(self, number: int) -> ItemText:
        """Return the text of an item in pieces, with its size."""
        item, size = self.given[number].item, self.window.size(number)
        texts = cuttable_texts(item)
        pieces = [pieces_of(text) for text in texts or [message.counted_text for message in item.messages]]
        handles = tuple(map(self._results.handle, texts))
        overhead = None
        if texts and size > LEAST_CUT:
            with suppress(InvalidMessage):  # it cannot be shown in part
                overhead = self._size_of(self.given[number].with_texts(handles))
        flat = list(chain.from_iterable(pieces))
        return ItemText(flat, size, overhead, tuple(accumulate(map(len, pieces))), handles)

    def _changed(
        self, parts: Sequence[Sequence[int]], texts: Sequence[Sequence[ItemText]], stay: Container[int]
    ) -> dict[int, ShownItem | None]:
        """Return the new form of each changed item; None for one that is evicted."""
        changes: dict[int, ShownItem | None] = {}
        for place, part in enumerate(parts):
            for number, text in zip(part, texts[place], strict=True):
                if place not in stay:
                    changes[number] = None
                elif (form := self._in_part(number, text)) is not None:
                    changes[number] = form
        return changes

    def _in_part(self, number: int, text: ItemText) -> ShownItem | None:
        """Return the item with the chosen pieces; results without any chosen piece are masked."""
        shown = text.shown()
        if shown is None:
            return None
        texts = [shown_text for shown_text, _ in shown]
        found = results(self.given[number].item)
        masked = [at for at, _ in enumerate(found) if not shown[at][1]]
        for at in masked:
            texts[at] = self._results.line_or_text(found[at])
        form = self.given[number].with_texts(texts, masked)
        return form if self._size_of(form) < self.window.size(number) else None

    def _apply(self, changes: Mapping[int, ShownItem | None], budget: int) -> list[WindowStep]:
        """Apply the changes for a query and return the steps."""
        before = self.window.total
        cut = {number: form for number, form in changes.items() if form is not None}
        sizes = {number: (WindowAction.CUT, self._size_of(form)) for number, form in cut.items()}
        self.window.commit(EvictionPlan(before, sizes=sizes))
        for number, form in cut.items():
            self._show(number, form)
            self._keep_texts(self.given[number].item)
        between = self.settle().total
        gone = [number for number, form in changes.items() if form is None]
        self.session.remove(gone)
        self.window.remove(gone)
        self._forget(gone)
        after = self.settle().total
        reason, steps = WindowReason.LESS_WORTH, []
        if cut:
            over = before - budget
            steps.append(WindowStep(tuple(cut), reason, before, between, over, budget, WindowAction.CUT))
        if gone:
            steps.append(WindowStep(tuple(gone), reason, between, after, between - budget, budget))
        return steps

    def least(self, limits: WindowLimits) -> tuple[dict[int, int], int]:
        """Return the items that must stay with their smallest sizes, and the total of only these."""
        made = plan_minimum(self.window, limits, self)
        gone = set(made.evicted_numbers)
        planned = {number: size for number, (_, size) in made.sizes.items()}
        sizes = {n: planned.get(n, self.window.size(n)) for n in self.window if n not in gone}
        return sizes, self._total_with(made)

    def _plan_that_fits(self, limits: WindowLimits) -> EvictionPlan:
        """Return a plan; if sizes are estimates, the smallest one found that fits by the counter."""
        made = plan(self.window, limits, self)
        budget = limits.budget
        if self.session.sums or budget is None or self.window.total <= budget:
            return made
        if made.total > budget and self.least(limits)[1] > budget:
            return made
        found = self._smallest_plan(made, limits, budget)
        if found is None:
            least = plan_minimum(self.window, limits, self)
            found = least, self._total_with(least)
        made, counted = found
        if counted > budget:
            return plan(self.window, replace(limits, budget=None), self)
        return replace(made, steps=_as_counted(made.steps, self.window.total, counted, budget))

    def _smallest_plan(
        self, made: EvictionPlan, limits: WindowLimits, budget: int
    ) -> tuple[EvictionPlan, int] | None:
        """Return the smallest plan found that is within ``budget`` by the counter, with the counter's total.

        Each plan frees ``extra`` tokens beside those that the estimates ask for: the previous plan's excess
        by the counter. Where that does not halve the excess, or leads back, it bisects between a plan that
        frees too little and one that frees enough.
        """
        extra, too_little, enough = 0, budget - self.window.total, made.total + self.window.total
        found, fewest, excess = None, 0, 2 * self.window.total
        for _ in range(_TRIES):
            nearer = enough
            if made.total > budget:  # not even all that may leave is so much
                enough = extra
            else:
                total = self._total_with(made)
                over = total - budget
                nearer = extra + over if 2 * over <= excess else enough
                if over > 0:
                    too_little, fewest, excess = extra, len(made.steps), over
                else:
                    found, enough = (made, total), extra
            if found is not None and len(found[0].steps) <= fewest + 1:
                break
            extra = nearer if too_little < nearer < enough else (too_little + enough) // 2
            if not too_little < extra < enough:
                break
            made = plan(self.window, limits, self, extra)
        return found

    def _total_with(self, made: EvictionPlan) -> int:
        """Return the counter's total of the request with the changes of a plan."""
        changes: dict[int, Item | None] = dict.fromkeys(made.evicted_numbers)
        for number, (action, size) in made.sizes.items():
            changes[number] = self._form_of(number, action, size).item
        return self.session.total_with(changes)

    # Shorter forms of results, measured for the engine ------------------------------------------------------

    def masked(self, number: int) -> int | None:
        """Return the size of an item whose results are one line each."""
        form = self._form(number, None)
        return None if form is None else form[1]

    def cut(self, number: int, at_most: int, *, media: bool = True) -> int | None:
        """Return the size of an item cut to at most ``at_most``, with the head and tail of its results.

        ``media``: with their images and files; else one line says which were left out.
        """
        form = self._form(number, at_most, media=media)
        return None if form is None else form[1]

    def _form_of(self, number: int, action: WindowAction, size: int) -> ShownItem:
        if action is WindowAction.RESTORE:
            return self.given[number]
        if action is WindowAction.MASK:
            form = self._form(number, None)
        else:
            form = next(form for form in self._forms[number].values() if form is not None and form[1] == size)
        assert form is not None  # noqa: S101  # the engine knows its size from masked() or cut()
        return form[0]

    def _form(self, number: int, at_most: int | None, *, media: bool = True) -> tuple[ShownItem, int] | None:
        """Return the item masked, or cut to ``at_most``, with its size; None if that is impossible."""
        forms, key, given = self._forms.setdefault(number, {}), (at_most, media), self.given[number]
        if key not in forms:
            forms[key] = None
            with suppress(InvalidMessage):  # its results cannot be rewritten: it stays in full or leaves
                if at_most is None:
                    form = self._results.masked(given)
                    forms[key] = form, self._size_of(form)
                else:
                    size = self.window.full_size(number)
                    forms[key] = self._results.cut(given, size, at_most, self._size_of, media=media)
        return forms[key]

    @property
    def _results(self) -> ResultForms:
        return ResultForms(self.tokenizer, self.handles, self._names)

    def _size_of(self, form: ShownItem) -> int:
        return self.session.cost(form.item) + self._share

    def _show(self, number: int, form: ShownItem) -> None:
        self.shown[number] = form
        self.session.replace(number, form.item)
        self._note(number, seen=is_seen(form.item))

    def _note(self, number: int | None, *, seen: bool) -> None:
        if seen:
            self._unseen.discard(number)
        else:
            self._unseen.add(number)

    def _keep_texts(self, item: Item) -> None:
        self.left_out.update((handle_of(text), text) for text in originals(item))

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            del self.given[number], self.shown[number]
            self._unseen.discard(number)
            self._forms.pop(number, None)


def _as_counted(steps: Sequence[WindowStep], before: int, after: int, budget: int) -> list[WindowStep]:
    """Return steps that were planned by estimates with the counter's totals of the first and the last.

    The totals between them are interpolated.
    """
    if not steps:
        return []
    planned, freed = steps[0].before, max(1, steps[0].before - steps[-1].after)

    def counted(total: int) -> int:
        return before - (planned - total) * (before - after) // freed

    return [
        step._replace(
            before=counted(step.before),
            after=counted(step.after),
            over=max(1, counted(step.before) - budget) if step.reason is WindowReason.OVER else step.over,
            limit=budget if step.reason is WindowReason.OVER else step.limit,
        )
        for step in steps
    ]
