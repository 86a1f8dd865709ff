"""A slow, obvious reference for the policy ``degrade``: every step counts the texts again.

Written from the rules of docs/layout.md alone, to test the fast engine. It tries every place to find a cut,
counts the whole text at every step, and computes the limits of a section each time.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING

from tests.reference_box import Overflow, Solution, clusters, shares
from tokenbox.content.section import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenbox import Section
    from tokenbox.content.group import Group
    from tokenbox.tokenizers.protocol import Tokenizer


def pieces(section: Section, text: str) -> list[str]:
    """Return the units that a cut keeps or leaves out."""
    if section.items is not None and text == section.content:
        # An empty last item has no line.
        return [f"{item}\n" for item in section.items[:-1]] + [item for item in section.items[-1:] if item]
    if section.cut == "line":
        return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)
    if section.cut == "sentence":
        return between(text, sentence_places(text, at_end=section.keep == "head"))
    if section.cut == "word":
        places = [p for p in range(1, len(text)) if is_word_border(text, p, at_end=section.keep == "head")]
        return between(text, places)
    return clusters(text)


def between(text: str, places: Sequence[int]) -> list[str]:
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True) if a < b]


def sentence_places(text: str, *, at_end: bool) -> list[int]:
    """Return where sentences end (or the next ones begin), for texts of the tests' words."""
    found, start = [], 0
    for end in range(1, len(text)):
        after = text[end:]
        if re.match(r"(?:\r\n|\r(?!\n)|\n)[^\S\r\n]*[\r\n]", after) and (text[end - 1], after[0]) != (
            "\r",
            "\n",
        ):
            ends = bool(text[start:end].strip())
            start = end
        else:
            mark, blank = text[end - 1] in ".!?", after[0].isspace()
            initial = re.search(r"(?:^|[^a-z])(?:[a-z]|dr)\.$", text[:end], re.IGNORECASE)
            goes_on = text[end - 1] == "." and (initial or after.lstrip()[:1].islower())
            ends = mark and blank and not goes_on
            start = end if ends else start
        if ends:
            place = end if at_end else end + len(after) - len(after.lstrip())
            if (
                not unicodedata.combining(text[place : place + 1] or "x")
                and text[place : place + 1] != "\u200d"
            ):
                found.append(place)
    return found


def is_word_border(text: str, place: int, *, at_end: bool) -> bool:
    """Return True if a word ends (or begins) there. Each Chinese or Japanese character is a word."""
    before, after = text[place - 1], text[place]
    alone = any("\u3040" <= c <= "\u30ff" or "\u3400" <= c <= "\u9fff" for c in (before, after))
    if unicodedata.combining(after) or after == "\u200d":
        return False
    if at_end:
        return not before.isspace() and (after.isspace() or alone)
    starts = before.isspace() and bool(text[:place].strip())
    return not after.isspace() and (starts or (alone and not before.isspace()))


def cuts(section: Section, text: str, tokenizer: Tokenizer) -> list[str]:
    """Return every cut of a text, from nothing to the whole, with its marker."""
    if section.cut == "never":
        return ["", text]
    parts = pieces(section, text)
    n = len(parts)

    def marked(kept: list[tuple[int, int]]) -> str:
        words = ["".join(parts[a:b]) for a, b in kept]
        if not section.marker or not "".join(words):
            return "".join(words)
        gaps = [(b, a) for (_, b), (a, _) in zip([(0, 0), *kept], [*kept, (n, n)], strict=True)]
        empty = [a == b for a, b in gaps]
        marks = []
        for (a, b), nothing in zip(gaps, empty, strict=True):
            lost = tokenizer.count("".join(parts[a:b]))
            if empty.count(False) == 1:
                lost = max(0, tokenizer.count(text) - tokenizer.count("".join(words)))
            about = "" if tokenizer.identity.exact else "~"
            marks.append("" if nothing else section.marker.replace("{tokens}", f"{about}{lost:,}"))
        return marks[0] + "".join(word + mark for word, mark in zip(words, marks[1:], strict=True))

    found = []
    for m in range(n):
        front = (n - m) // 2
        kept = {
            "head": [(0, m)],
            "tail": [(n - m, n)],
            "middle": [(front, front + m)],
            "ends": [(0, m - m // 2), (n - m // 2, n)],
        }[section.keep]
        found.append(marked(kept))
    return [*found, text]


def longest(section: Section, text: str, limit: int, tokenizer: Tokenizer) -> str:
    return next(
        cut for cut in reversed(cuts(section, text, tokenizer)) if not cut or tokenizer.count(cut) <= limit
    )


def shortest(section: Section, text: str, least: int, tokenizer: Tokenizer) -> str:
    """Return the shortest cut such that it and all longer ones have at least ``least`` tokens."""
    made = cuts(section, text, tokenizer)
    while len(made) > 1 and tokenizer.count(made[-2]) >= least:
        made.pop()
    return made[-1]


class Reference:
    def __init__(
        self,
        sections: Sequence[Section],
        groups: Mapping[str, Group],
        budget: int,
        tokenizer: Tokenizer,
        separator: str,
        whole: Callable[[Sequence[Section], Sequence[str]], int] | None,
    ) -> None:
        self.whole = whole
        self.sections, self.groups, self.budget = list(sections), groups, budget
        self.tokenizer, self.separator = tokenizer, separator
        self.count = tokenizer.count
        self.n = range(len(sections))
        self.texts = [s.content for s in sections]
        self.source = [s.content for s in sections]  # the texts to cut
        self.level = [0 for _ in sections]
        self.decisions = ["kept" for _ in sections]
        self.losses: list[list[int]] = []
        self.forms = [
            [
                s.content,
                *(f.text if isinstance(f, Text) else f.apply(s.content, tokenizer) for f in s.alternatives),
            ]
            for s in sections
        ]

    # Figures.

    def total(self) -> int:
        if self.whole is not None:
            return self.whole(self.sections, self.texts)
        return self.count(self.separator.join(t for t in self.texts if t))

    def size(self, i: int) -> int:
        return self.count(self.texts[i])

    def chain(self, i: int) -> list[str]:
        """Return the groups of a section, innermost first."""
        found, name = [], self.sections[i].group
        while name is not None:
            found.append(name)
            name = self.groups[name].parent
        return found

    def members(self, name: str) -> list[int]:
        return [i for i in self.n if name in self.chain(i)]

    def group_size(self, name: str) -> int:
        return sum(self.size(i) for i in self.members(name))

    def tokens(self, bound: int | Fraction | None) -> int | None:
        return bound * self.budget // 1 if isinstance(bound, Fraction) else bound

    def unit(self, i: int) -> list[int]:
        """Return the sections that are kept or dropped together with a section."""
        together = {i}
        while True:
            ids = {self.sections[k].id for k in together} | {self.sections[k].with_ for k in together}
            more = {k for k in self.n if self.sections[k].id in ids or self.sections[k].with_ in ids - {None}}
            more = {k for k in more if self.linked(k, together)}
            if more <= together:
                return sorted(together, key=self.rank)
            together |= more

    def linked(self, k: int, together: set[int]) -> bool:
        one = self.sections[k]
        return any(
            one.with_ == self.sections[m].id or self.sections[m].with_ == one.id or k == m for m in together
        )

    def rank(self, i: int) -> tuple[tuple[int, ...], Fraction, int]:
        path = (*(self.groups[g].priority for g in reversed(self.chain(i))), self.sections[i].priority)
        return path, -Fraction(self.sections[i].shrink), i

    def order(self) -> list[int]:
        flexible = [i for i in self.n if self.sections[i].shrink > 0]
        return sorted(flexible, key=lambda i: (max(map(self.rank, self.unit(i))), self.rank(i)))

    def floor(self, i: int) -> int:
        least = self.sections[i].min
        for g in self.chain(i):
            if self.groups[g].min:
                least = max(least, self.size(i) - max(0, self.group_size(g) - self.groups[g].min))
        return least

    def ceiling(self, i: int) -> int:
        own = self.tokens(self.sections[i].max)
        most = 10**9 if own is None else own
        for g in self.chain(i):
            if (limit := self.tokens(self.groups[g].max)) is not None:
                most = min(most, self.size(i) + limit - self.group_size(g))
        return most

    # Losing.

    def take(self, i: int, level: int) -> None:
        self.level[i] = level
        self.texts[i] = self.source[i] = self.forms[i][level]

    def next_form(self, i: int, least: int) -> bool:
        for level in range(self.level[i] + 1, len(self.forms[i])):
            if max(least, 1) <= self.count(self.forms[i][level]) < self.size(i):
                self.take(i, level)
                self.decisions[i] = "compressed"
                return True
        return False

    def cut(self, i: int, floor: int, over: Callable[[], int]) -> None:
        before = self.size(i)
        while (deficit := over()) > 0 and max(floor, self.size(i) - deficit) < self.size(i):
            limit = max(floor, self.size(i) - deficit)
            new = longest(self.sections[i], self.source[i], limit, self.tokenizer)
            if self.count(new) < floor:
                new = shortest(self.sections[i], self.source[i], floor, self.tokenizer)
            if self.count(new) >= self.size(i):
                break
            self.texts[i] = new
        if self.size(i) < before:
            if not self.size(i):
                self.texts[i] = ""
            self.decisions[i] = "truncated" if self.texts[i] else "dropped"
            self.losses.append([i])

    def drop(self, leaving: list[int]) -> None:
        for i in leaving:
            self.texts[i] = ""
            self.decisions[i] = "dropped"
        self.losses.append(leaving)

    def leaving(self, i: int) -> list[int]:
        out = [i, *(k for k in self.unit(i) if k != i)]
        while True:
            more: list[int] = []
            for g in self.groups:
                if not any(k in out for k in self.members(g)):
                    continue
                stay = [k for k in self.members(g) if k not in out and self.size(k)]
                if sum(map(self.size, stay)) < self.groups[g].min:
                    more += [m for k in stay if self.sections[k].shrink > 0 for m in self.unit(k)]
            more = [k for k in dict.fromkeys(more) if k not in out]
            if not more:
                return out
            out += more

    def fit(self, order: list[int], over: Callable[[], int]) -> None:
        changed = True
        while changed:
            changed = False
            for i in order:
                if over() > 0 and self.next_form(i, self.floor(i)):
                    self.losses.append([i])
                    changed = True
        done: list[int] = []
        for i in order:
            if i in done or over() <= 0:
                continue
            unit = self.unit(i)
            here = [k for k in order if k in unit]
            done += here
            if all(self.decisions[k] == "dropped" for k in here):
                continue
            too_small = len(unit) > 1 and len(self.leaving(i)) > len(unit)  # a group of theirs
            if any(self.floor(k) for k in unit) or too_small:
                for k in here:
                    self.cut(k, max(self.floor(k), 1), over)
                continue
            saved = list(self.texts)
            for k in unit:
                self.texts[k] = ""
            if over() > 0:
                self.drop(unit)
                continue
            self.texts = saved
            for k in here:
                self.cut(k, max(self.floor(k), 0 if len(unit) == 1 else 1), over)
            if over() > 0:
                self.drop(self.leaving(here[0]))
        for i in order:
            if over() > 0 and self.size(i):
                self.drop(self.leaving(i))

    # Giving back.

    def give_back(self, i: int, lost_by: str) -> bool:
        before = self.size(i)
        saved = self.texts[i], self.source[i], self.level[i], self.decisions[i]
        most, least = self.ceiling(i), max(self.sections[i].min, before + 1)

        def over() -> int:
            return max(self.total() - self.budget, self.size(i) - most)

        self.take(i, 0)
        self.decisions[i] = "kept"
        if over() <= 0 and self.size(i) > before:
            return True
        while over() > 0 and self.next_form(i, least):
            pass
        while over() > 0 and lost_by != "compressed" and self.size(i) - over() >= least:
            limit = self.size(i) - over()
            self.texts[i] = longest(self.sections[i], self.source[i], limit, self.tokenizer)
            self.decisions[i] = "truncated"
        if over() <= 0 and self.size(i) >= least:
            return True
        self.texts[i], self.source[i], self.level[i], self.decisions[i] = saved
        return False

    def reclaim(self) -> None:
        lost_by = list(self.decisions)
        seen: list[int] = []
        for loss in reversed(self.losses):
            back = [i for i in reversed(loss) if i not in seen]
            seen += back
            if self.total() >= self.budget:
                return
            saved = list(self.texts), list(self.source), list(self.level), list(self.decisions)
            given = [self.give_back(i, lost_by[i]) for i in back]
            small = [
                g
                for i in back
                for g in self.chain(i)
                if self.group_size(g) < self.groups[g].min
                and any(self.size(k) and self.sections[k].shrink > 0 for k in self.members(g))
            ]
            if small or (len(back) > 1 and not all(given)):
                self.texts, self.source, self.level, self.decisions = saved

    def was_dropped(self, name: str) -> bool:
        """Return True if a group that lost a section is below its minimum, with no flexible section left."""
        members = self.members(name)
        lost = any(i in members for loss in self.losses for i in loss)
        left = any(self.size(i) and self.sections[i].shrink > 0 for i in members)
        return lost and not left and self.group_size(name) < self.groups[name].min

    def expand(self) -> None:
        lost = {i for loss in self.losses for i in loss}
        dropped = [name for name in self.groups if self.was_dropped(name)]
        used = [0 for _ in self.n]
        changed = True
        while changed:
            changed = False
            growing = [
                i
                for i in self.n
                if self.sections[i].grow > 0 and i not in lost and used[i] < len(self.sections[i].extra)
            ]
            left = self.budget - self.total()
            if not growing or left <= 0:
                break
            weights = [Fraction(self.sections[i].grow) for i in growing]
            for i, share in zip(growing, shares(left, weights), strict=True):
                goal, most = self.total() + share, self.ceiling(i)
                taken, unextended = used[i], self.texts[i]
                for item in self.sections[i].extra[used[i] :]:
                    before = self.texts[i]
                    self.texts[i] = self.separator.join(t for t in (before, item) if t)
                    if self.total() > goal or self.size(i) > most:
                        self.texts[i] = before
                        break
                    used[i] += 1
                back = [g for g in self.chain(i) if g in dropped and self.sections[i].shrink > 0]
                if any(self.group_size(g) < self.groups[g].min for g in back):
                    used[i], self.texts[i] = taken, unextended
                if used[i] > taken:
                    changed = True
                    self.decisions[i] = "expanded"


def solve(
    sections: Sequence[Section],
    groups: Mapping[str, Group],
    budget: int,
    tokenizer: Tokenizer,
    separator: str,
    whole: Callable[[Sequence[Section], Sequence[str]], int] | None = None,
) -> Solution:
    """Lay out the sections. ``whole`` counts sections and texts as they are sent; by default as one text."""
    one = Reference(sections, groups, budget, tokenizer, separator, whole)
    critical = [s for s in sections if not s.shrink]
    fixed_load = tokenizer.count(separator.join(s.content for s in critical if s.content))
    if whole is not None:
        fixed_load = whole(critical, [s.content for s in critical])
    if fixed_load > budget:
        raise Overflow(fixed_load)
    order = one.order()
    for i in sorted(order):
        if (most := one.tokens(sections[i].max)) is not None:
            one.fit([i], lambda i=i, most=most: one.size(i) - most)  # type: ignore[misc]
    deepest = sorted(groups, key=lambda g: -len(parents(groups, g)))
    for g in deepest:
        if (most := one.tokens(groups[g].max)) is not None:
            members = [i for i in order if i in one.members(g)]
            one.fit(members, lambda g=g, most=most: one.group_size(g) - most)  # type: ignore[misc]
    fits = one.total() <= budget
    one.fit(order, lambda: one.total() - budget)
    one.reclaim()
    if fits:
        one.expand()
    decisions = [
        "kept" if text == section.content and decision != "dropped" else decision
        for section, text, decision in zip(sections, one.texts, one.decisions, strict=True)
    ]
    return Solution(one.texts, decisions, one.total())


def parents(groups: Mapping[str, Group], name: str) -> list[str]:
    parent = groups[name].parent
    return [name] if parent is None else [name, *parents(groups, parent)]
