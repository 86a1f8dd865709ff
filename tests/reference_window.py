"""A slow, obvious reference for the window of a conversation: everything is computed again for each change.

Written from layout.md section 5 and docs/conversations.md, to test the fast engine. A state is the list of
items in the window and their sizes; nothing else is kept between changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

LEAST_CUT = 64


@dataclass(eq=False)
class Item:
    """``kind``: fixed, user, answer, call, part (of a call), result or stray. ``round``: the call of a part
    or a result, or the reasoning before an answer.

    ``full``, ``masked``: sizes; None if it cannot be masked. ``may_cut``: it can be cut to any smaller size;
    with ``image``, only if its image leaves. ``media``: a question that can be masked. ``held``: it stays,
    but its results may be shortened.
    """

    kind: str
    full: int
    masked: int | None = None
    may_cut: bool = True
    round: Item | None = None
    waiting: int = 0
    pinned: int = 0
    given_up: bool = False
    image: bool = False
    media: bool = False
    held: bool = False
    size: int = field(init=False)
    form: str = field(init=False, default="full")

    def __post_init__(self) -> None:
        self.size = self.full


@dataclass
class Wanted:
    """The limits."""

    max_turns: int | None
    budget: int | None
    mark: int
    eagerness: Fraction | None
    steps: frozenset[str]
    keep_results: int


class Solver:
    """Reduces a window. ``items`` are all items ever added; ``here`` are those in the window."""

    def __init__(self, items: list[Item], here: list[Item], base: int, wanted: Wanted) -> None:
        self.items, self.here, self.base, self.wanted = items, here, base, wanted

    # The window ---------------------------------------------------------------------------------------

    def total(self) -> int:
        return self.base + sum(item.size for item in self.here)

    def unit(self, item: Item) -> list[Item]:
        call = item.round or item
        return [other for other in self.here if other is call or other.round is call]

    def results(self, call: Item) -> list[Item]:
        return [item for item in self.unit(call) if item.kind == "result"]

    def pinned(self, item: Item) -> bool:
        return any(other.pinned for other in self.unit(item))

    def held(self, item: Item) -> bool:
        return any(other.held for other in self.unit(item))

    def open_call(self) -> Item | None:
        """Return the last call, if the assistant has not answered after it."""
        by_assistant = [item for item in self.items if item.kind in {"answer", "call"}]
        last = by_assistant[-1] if by_assistant else None
        return last if last is not None and last.kind == "call" and last in self.here else None

    def is_open(self, item: Item) -> bool:
        return (item.round or item) is self.open_call()

    def exchanges(self) -> list[list[Item]]:
        found: list[list[Item]] = []
        for item in self.items:
            if item.kind in {"fixed", "stray"}:
                continue
            if item.kind == "user" or not found:
                found.append([])
            found[-1].append(item)
        return found

    def turns(self) -> int:
        return sum(item.kind == "user" for item in self.here)

    def staying(self) -> list[Item]:
        last = self.exchanges()[-1] if self.exchanges() else []
        unsendable = self.unsendable()
        return [
            item
            for item in self.here
            if item not in unsendable
            and (
                item.kind == "fixed"
                or not self.free(item)
                or (item in last and item.kind in {"user", "answer"})
            )
        ]

    def unsendable(self) -> list[Item]:
        given_up = [item for item in self.here if item.kind == "call" and item.given_up]
        strays = [item for item in self.here if item.kind == "stray"]
        return strays + [item for call in given_up for item in self.unit(call)]

    # Possible changes, in order -----------------------------------------------------------------------------

    def free(self, item: Item) -> bool:
        return not self.pinned(item) and not self.held(item) and not self.is_open(item)

    def may_shorten(self, item: Item) -> bool:
        last = self.exchanges()[-1] if self.exchanges() else []
        kind = item.kind == "result" or (item.media and item not in last)
        return kind and item.form != "masked" and not self.pinned(item) and not self.is_open(item)

    def first_leaving(self, *, rounds: bool, exchanges: bool, ahead: bool = False) -> list[Item]:
        """Return the next part to evict: the oldest round, else the oldest exchange except the last.

        ``ahead``: an eviction before it is necessary, which keeps the rounds of the last exchange.
        """
        if rounds:
            last = self.exchanges()[-1] if ahead and self.exchanges() else []
            for item in self.here:
                if item.kind == "call" and self.free(item) and item not in last:
                    return self.unit(item)
        if exchanges:
            for exchange in self.exchanges()[:-1]:
                part = [item for item in exchange if item in self.here and self.free(item)]
                if part:
                    return part
        return []

    def shortenings(self) -> list[tuple[Item, str]]:
        steps = self.wanted.steps
        results = [item for item in self.here if self.may_shorten(item)]
        call = self.open_call()
        unread = 0 if call is None else len(self.results(call))
        kept = max(0, self.wanted.keep_results - unread) if "mask" in steps else len(results)
        old = results[: max(0, len(results) - kept)]
        new = [item for item in results if item not in old]
        found: list[tuple[Item, str]] = []
        if "mask" in steps:
            found += [(item, "mask") for item in old]
        if "cut" in steps:
            found += [(item, "cut") for item in new]
        if "mask" in steps:
            found += [(item, "mask") for item in new]
        return found

    # The changes -------------------------------------------------------------------------------------------

    def shorten(self, item: Item, action: str, target: int) -> None:
        at_most = item.size - (self.total() - target)
        if action == "cut":
            at_most = max(at_most, LEAST_CUT)
        may_cut = item.may_cut and not item.image
        if "cut" in self.wanted.steps and LEAST_CUT <= at_most < item.size and may_cut:
            item.size, item.form = at_most, "cut"
        elif action == "mask" and item.masked is not None and item.masked < item.size:
            item.size, item.form = item.masked, "masked"

    def leave(self, part: list[Item]) -> None:
        self.here = [item for item in self.here if item not in part]

    def reduce(self, target: int) -> None:
        for item, action in self.shortenings():
            if self.total() <= target:
                return
            self.shorten(item, action, target)
        steps = self.wanted.steps
        before, lost = self.here, []
        while self.total() > target:
            part = self.first_leaving(rounds="rounds" in steps, exchanges="exchanges" in steps)
            if not part:
                return
            self.leave(part)
            lost.append(part)
        if "cut" in steps:
            self.keep_what_fits(lost, before, target)

    def keep_what_fits(self, lost: list[list[Item]], before: list[Item], budget: int) -> None:
        """Give the free room to the parts that would leave, the last of them first."""
        for part in reversed(lost):
            free = budget - self.total()
            if free < max(LEAST_CUT, budget // 8):
                return
            exchange = next(one for one in self.exchanges() if part[0] in one)
            rest = [item for item in exchange if item in before and item.kind in {"user", "answer"}]
            if part[0].kind == "call" and any(item not in self.here for item in rest):
                continue
            fits = sum(item.size for item in part) <= free
            if not fits and not self.cut_texts(part, free):
                continue
            self.here = [item for item in before if item in self.here or item in part]

    def cut_texts(self, part: list[Item], room: int) -> bool:
        """Cut the longest texts of a part so that it is within ``room``."""
        texts = [item for item in part if item.kind not in {"call", "part"}]
        while texts:
            left = room - sum(item.size for item in part if item not in texts)
            cap = 0
            while cap < max(item.size for item in texts) and (
                sum(min(item.size, cap + 1) for item in texts) <= left
            ):
                cap += 1
            long = [item for item in texts if item.size > cap]
            if cap < LEAST_CUT or not long:
                return False
            stuck = [item for item in long if not item.may_cut or item.image]
            if not stuck:
                for item in long:
                    item.size, item.form = cap, "cut"
                return True
            texts = [item for item in texts if item not in stuck]
        return False

    def state(self) -> tuple[list[Item], list[tuple[int, str]]]:
        return list(self.here), [(item.size, item.form) for item in self.items]

    def restore(self, state: tuple[list[Item], list[tuple[int, str]]]) -> None:
        self.here = list(state[0])
        for item, (size, form) in zip(self.items, state[1], strict=True):
            item.size, item.form = size, form

    def solve(self) -> list[Item]:
        wanted = self.wanted
        whole, answers = (
            self.total(),
            sum(item.kind in {"answer", "call"} and item.round is None for item in self.here),
        )
        least = self.base + sum(item.size for item in self.staying())
        self.leave(self.unsendable())
        turns = self.turns()
        while wanted.max_turns is not None and self.turns() > wanted.max_turns:
            part = self.first_leaving(rounds=False, exchanges=True)
            if not part:
                break
            self.leave(part)
        won = self.turns() < turns
        before = self.state()
        over = 0
        if wanted.budget is not None:
            if not self.open_round_fits(wanted.budget):
                self.restore(before)
                return self.here
            over = self.total() - wanted.budget
            self.reduce(wanted.budget)
            if self.total() > wanted.budget:
                self.restore(before)
                return self.here
            if over > 0:
                self.give_back(wanted.budget)
        if wanted.eagerness is not None and won:
            after = self.base + sum(item.size for item in self.staying())
            self.go_on(self.suggested(whole, min(after, least), answers))
        return self.here

    def suggested(self, whole: int, least: int, answers: int) -> int:
        wanted = self.wanted
        assert wanted.eagerness is not None
        limit = whole if wanted.budget is None else min(whole, wanted.budget)
        room = max(0, limit - least)
        freed = 2 * wanted.eagerness * room * max(0, whole - least) / (answers + 1)
        free = 0
        while free < room // 2 and (free + 1) ** 2 <= freed:
            free += 1
        return limit - free

    def go_on(self, mark: int) -> None:
        steps = self.wanted.steps
        for item, action in self.shortenings():
            before, total = self.state(), self.total()
            self.shorten(item, action, mark)
            if total - mark <= mark - self.total():
                self.restore(before)
                return
        rounds, exchanges = "rounds" in steps, "exchanges" in steps
        while part := self.first_leaving(rounds=rounds, exchanges=exchanges, ahead=True):
            before, total = self.state(), self.total()
            self.leave(part)
            if total - mark <= mark - self.total():
                self.restore(before)
                return

    def open_round_fits(self, budget: int) -> bool:
        staying = self.staying()
        for item, action in self.shortenings():
            over = self.base + sum(item.size for item in staying) - budget
            if over > 0 and self.held(item):
                self.shorten(item, action, self.total() - over)
        over = self.base + sum(item.size for item in staying) - budget
        if over <= 0:
            return True
        call = self.open_call()
        if call is None or "shorten_last" not in self.wanted.steps:
            return False
        results = self.results(call)
        room = sum(item.size for item in results) - over
        rooms = [room // 2, room] if self.total() - budget > over else [room]
        for image, share in [(image, share) for image in (True, False) for share in rooms]:
            cap = 0
            while cap < max((i.size for i in results), default=0) and (
                sum(min(i.size, cap + 1) for i in results) <= share
            ):
                cap += 1
            cut = [item for item in results if item.size > cap]
            if cap >= LEAST_CUT and cut and all(i.may_cut and not (image and i.image) for i in cut):
                for item in cut:
                    item.size, item.form = cap, "cut"
                return True
        return False

    def give_back(self, budget: int) -> None:
        for item in reversed(self.here):
            free = budget - self.total()
            if free <= 0:
                return
            if item.full - item.size <= free:
                item.size, item.form = item.full, "full"
            elif "cut" in self.wanted.steps and item.size + free >= LEAST_CUT and item.may_cut:
                item.size, item.form = item.size + free, "cut"
