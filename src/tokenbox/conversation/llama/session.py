"""The running count of a conversation by a llama.cpp template: what did not change is not done again."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.compose.requests import By, Count
from tokenbox.content.message import Message, Object, Role, thaw
from tokenbox.content.request import Request
from tokenbox.conversation.llama.families import RETURN, no_return
from tokenbox.conversation.llama.fold import Following, History, NotLocal, Track
from tokenbox.conversation.llama.prompt import COSTLESS, begun_by, behind, can_be_sent, ending, read_message
from tokenbox.conversation.llama.run import Program, Run
from tokenbox.conversation.llama.segments import Segment, Segments
from tokenbox.conversation.pieces import MEDIA, request_of
from tokenbox.conversation.sent import SOME_DAY, only_days, without_media

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Mapping, Sequence

    from tokenbox.content.items import Item
    from tokenbox.conversation.llama.fold import LoopMemory
    from tokenbox.conversation.llama.prompt import Prepared, ServerRequest
    from tokenbox.conversation.template_format import LlamaFormat

    Memories = dict[tuple[int, int], LoopMemory]

_GAPS: Final = 64  # messages that left from among others, until all are numbered anew


@dataclass(slots=True)
class _Said:
    """One message: as the caller gave it, as the server reads it, as it is sent, as the template sees it."""

    given: dict[str, Any]
    read: dict[str, Any]
    sent: dict[str, Any]
    final: dict[str, Any]


@dataclass(slots=True)
class _Held:
    """One item of the conversation. ``at``: the number of its first message among all there were."""

    item: Item
    said: list[_Said]
    media: int
    at: int
    bound: int | None = None
    gone: bool = False


class _Line:
    """The messages of a request, one after another; ``owners``: the numbers of their items, which rise."""

    def __init__(self) -> None:
        self.owners: list[int] = []
        self.said: list[_Said] = []
        self.messages: list[dict[str, Any]] = []
        self.media = self.changed = 0

    def add(self, number: int, held: _Held) -> None:
        self.owners += [number] * len(held.said)
        self.said += held.said
        self.messages += [said.final for said in held.said]
        self.count(held, 1)

    def count(self, held: _Held, times: int) -> None:
        self.media += times * held.media
        self.changed += times * (not held.item.verbatim)

    def with_(self, changes: Mapping[int, tuple[_Held, _Held | None]]) -> _Line:
        """Another line, where items have become others, or have left. What did not change is copied whole."""
        made = _Line()
        made.media, made.changed = self.media, self.changed
        at = 0
        for number in sorted(changes):
            before, after = changes[number]
            first = bisect_left(self.owners, number, at)
            made.take(self, at, first)
            at = first + len(before.said)
            made.count(before, -1)
            if after is not None:
                made.add(number, after)
        made.take(self, at, len(self.owners))
        return made

    def take(self, other: _Line, first: int, end: int) -> None:
        if first < end:
            self.owners += other.owners[first:end]
            self.said += other.said[first:end]
            self.messages += other.messages[first:end]


class LlamaSession:
    """A conversation, counted as it grows and as messages leave it.

    ``follows`` is False once the template has done what cannot be followed: then every count is of the whole.
    """

    sums = False  # what a message adds depends on its neighbours

    def __init__(self, counting: LlamaFormat) -> None:
        self._format = counting
        self._template = counting.template
        self._program = Program(self._template.program.source, Following())
        self._segments = Segments(counting.prompts, RETURN)
        self._memories: dict[tuple[Any, ...], Memories] = {}
        self._frames: dict[tuple[Any, ...], Prepared] = {}
        self._pairs: dict[tuple[int, int], tuple[_Said, _Said, dict[str, Any]]] = {}
        self._numbers: dict[int, int] = {}
        self._around: dict[Role, int] = {}
        self._head: list[_Held] = []
        self._held: dict[int, _Held] = {}
        self._line = _Line()
        self._bounded = 0
        self._unbounded: list[_Held] = []
        self._tools: tuple[Object, ...] = ()
        self._fields = Object()
        self._count: Count | None = None
        family = self._template.family
        self.follows = family is None or family.one_by_one
        self._asked = counting.asked((), (), {})
        self._costless = True

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object | None = None) -> None:
        given: dict[str, Any] = thaw(Object() if fields is None else fields)
        asked = self._format.asked((), [thaw(tool) for tool in tools], given)
        before = self._asked
        self._asked = asked
        try:
            held = [self._hold(item) for item in head]
            others = {number: self._hold(one.item) for number, one in self._held.items()}
        except Exception:
            self._asked = before
            raise
        self._head, self._held, self._tools = held, others, tuple(tools)
        self._fields = Object() if fields is None else fields
        self._costless = COSTLESS.issuperset(given)
        self._frames, self._memories, self._pairs = {}, {}, {}
        self._bounded, self._unbounded = 0, [*held, *others.values()]
        self._set_line()

    def _set_line(self) -> None:
        """The line of all that is here; its messages are numbered anew."""
        self._line, self._numbers = _Line(), {}
        at = -sum(len(held.said) for held in self._head)
        head = enumerate(self._head, -len(self._head))
        for number, held in (*head, *self._held.items()):
            held.at = at
            at += len(held.said)
            self._line.add(number, held)
            self._number(held)
        self._count = None

    def add(self, number: int, item: Item) -> None:
        last = next(reversed(self._held.values()), None)
        held = self._hold(item, 0 if last is None else last.at + len(last.said))
        self._held[number] = held
        self._unbounded.append(held)
        self._line.add(number, held)
        self._number(held)
        self._count = None

    def replace(self, number: int, item: Item) -> None:
        before = self._held[number]
        held = self._held[number] = self._hold(item, before.at)
        self._unbounded.append(held)
        self._line = self._line.with_({number: (before, held)})
        self._forget(before)
        self._number(held)
        self._count = None

    def remove(self, numbers: Collection[int]) -> None:
        gone = {number: self._held.pop(number) for number in numbers}
        self._line = self._line.with_({number: (held, None) for number, held in gone.items()})
        for held in gone.values():
            self._forget(held)
        self._count = None
        if self._held:
            first, last = next(iter(self._held.values())), next(reversed(self._held.values()))
            if last.at + len(last.said) - first.at > 2 * len(self._line.said) + _GAPS:
                self._set_line()

    @property
    def numbers(self) -> Collection[int]:
        """Of the items that are here."""
        return self._held.keys()

    def count(self) -> Count:
        if self._count is None and self.follows:
            try:
                self._count = self._followed(self._line)
            except NotLocal:
                self.follows = False
        if self._count is None:
            self._count = self._format.count_request(self._request({}))
        return self._count

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        if not changes:
            return self.count().total
        here = self._held
        others = {n: self._hold(item, here[n].at) for n, item in changes.items() if item is not None}
        line = self._line.with_({number: (here[number], others.get(number)) for number in changes})
        for held in others.values():
            self._number(held)
        try:
            if self.follows:
                now = self._format.now() or SOME_DAY
                return self._total(line, self._asked, now)[0] + line.media * MEDIA
        except NotLocal:
            self.follows = False
        finally:
            for held in others.values():
                self._forget(held)
        return self._format.count_request(self._request(changes)).total

    def size(self, number: int) -> int:
        return self.cost(self._held[number].item)

    def cost(self, item: Item) -> int:
        return sum(map(self._size, item.messages))

    def _size(self, message: Message) -> int:
        """By itself. What is around a bare text is counted once for each role: sizes are estimates here."""
        content = message.content
        if not isinstance(content, str) or len(message.source) != 2:  # role and content
            return self._format.message_sizes([message])[0]
        text = self._format.count_text(content)
        if message.role not in self._around:
            self._around[message.role] = self._format.message_sizes([message])[0] - text
        return max(0, text + self._around[message.role])

    def _forget(self, held: _Held) -> None:
        """What is remembered of messages that are no longer here."""
        held.gone = True
        self._bounded -= held.bound or 0
        for said in held.said:
            self._numbers.pop(id(said.final), None)
            for memories in self._memories.values():
                for memory in memories.values():
                    memory.runs.pop(id(said.final), None)
        for _, _, merged in self._pairs.values():
            self._numbers.pop(id(merged), None)
        self._pairs.clear()

    def _number(self, held: _Held) -> None:
        """Neighbours have numbers that follow each other, by which their turns are put together."""
        for place, said in enumerate(held.said):
            self._numbers[id(said.final)] = held.at + place

    # One message

    def _hold(self, item: Item, at: int = 0) -> _Held:
        media = sum(len(message.media) for message in item.messages)
        messages = without_media(item.messages)[0] if media else item.messages
        said = [self._say(message) for message in messages] if self.follows else []
        return _Held(item, said, media, at)

    def _say(self, message: Message) -> _Said:
        given = message.to_dict(declared=False)
        read = read_message(given)
        sent = self._template.adapted(read)
        return _Said(given, read, sent, self._final(sent))

    def _final(self, sent: dict[str, Any]) -> dict[str, Any]:
        return self._template.final([sent], self._asked.variables)[0]

    # The whole

    def _request(self, changes: Mapping[int, Item | None]) -> Request:
        shown = (changes.get(number, held.item) for number, held in self._held.items())
        here = [item for item in shown if item is not None]
        return request_of([*(held.item for held in self._head), *here], self._tools, self._fields)

    def _followed(self, line: _Line) -> Count:
        now = self._format.now()
        total, certain = self._total(line, self._asked, now or SOME_DAY)
        proven = certain and self._format.exact and self._costless and not line.changed and not line.media
        exact = proven and can_be_sent([said.given for said in line.said[-2:]])
        if exact:
            others = self._format.others(self._asked, now)
            exact = all(self._total(line, asked, day)[0] == total for asked, day in others)
        total += line.media * MEDIA
        return Count(total, exact, total if exact else max(total, self._bound()), By.TEMPLATE)

    def _bound(self) -> int:
        bound = self._format.bound
        for held in self._unbounded:
            if held.bound is None and not held.gone:
                raw = 0 if held.item.verbatim else bound.value(held.item.raw, media=True)
                held.bound = raw + sum(map(bound.message, held.item.messages))
                self._bounded += held.bound
        self._unbounded = []
        return self._bounded + bound.frame(Request(tools=self._tools, fields=self._fields))

    def _total(self, line: _Line, asked: ServerRequest, now: dt.datetime) -> tuple[int, bool]:
        """The total, and whether all that was done is certain."""
        key = (now.date(), asked.variables.get("preserve_reasoning"))
        prepared = self._frames.get(key)
        if prepared is None:
            if len(self._frames) > 8:  # days go by
                self._frames, self._memories = {}, {}
            prepared = self._frames[key] = self._template.frame(asked, now)
        memories = self._memories.setdefault(key, {})
        last = line.said[-1] if line.said else None
        continued, opened = ending([last.read] if last else [], asked)
        begun = None if continued is None or last is None else begun_by(last.read, continued)
        shown = self._messages(line, len(line.said) - (continued is not None and last is not None))
        pieces, run = self._pieces(prepared, shown, now, memories, opened=opened)
        segment = self._finished(self._trimmed(pieces), opened=opened)
        if begun is not None:

            def opening() -> str:
                """Both renders are made anew, so that both go by what is remembered now."""
                without = self._pieces(prepared, shown, now, memories, opened=False)[0]
                opened = self._pieces(prepared, shown, now, memories, opened=True)[0]
                found = _difference(without, opened)
                if found is not None:
                    return found
                whole = replace(prepared, variables={**prepared.variables, "messages": shown})
                return self._template.opening(whole, Run(now))

            text = self._template.begin(prepared, begun, segment.end, opening)
            segment = self._segments.join(segment, self._segments.of(text))
        track = run.track
        certain = not run.uncertain and track is not None and track.certain and only_days(run.dated)
        return self._segments.total(segment) + self._format.added, certain

    def _pieces(
        self,
        prepared: Prepared,
        messages: list[dict[str, Any]],
        now: dt.datetime,
        memories: Memories,
        *,
        opened: bool,
    ) -> tuple[list[str | Segment], Run]:
        run = Run(now)
        run.track = Track(memories, self._segments, self._numbers)
        variables = {**prepared.variables, "messages": History(messages, run.track)}
        if opened:
            variables["add_generation_prompt"] = True
        return self._program.pieces(variables, run), run

    def _messages(self, line: _Line, size: int) -> list[dict[str, Any]]:
        """What the template sees; a system message that it has no place for is merged with the next."""
        said = line.said[:2]
        if size and not self._template.able.system_role and said[0].sent["role"] == "system":
            if size == 1:
                return []
            key = id(said[0]), id(said[1])
            if key not in self._pairs:
                both = self._template.sent([said[0].read, said[1].read])
                self._pairs[key] = said[0], said[1], self._final(both[0])
            merged = self._pairs[key][2]
            self._numbers[id(merged)] = -1
            return [merged, *line.messages[2:size]]
        return line.messages[:size]

    def _trimmed(self, pieces: Sequence[str | Segment]) -> list[str | Segment]:
        """Without the token at the beginning that the tokenizer adds by itself."""
        starts, ends = self._template.starts, self._template.ends
        last = pieces[-1] if pieces else ""
        if ends and (last if isinstance(last, str) else last.end).endswith(ends[-1]):
            raise NotLocal
        if not starts:
            return list(pieces)
        size = 0
        while size < len(pieces) and isinstance(pieces[size], str):
            size += 1
        text = "".join(str(piece) for piece in pieces[:size])
        if size < len(pieces) and len(text) < len(starts) and starts.startswith(text):
            raise NotLocal
        return [text.removeprefix(starts), *pieces[size:]]

    def _finished(self, pieces: Sequence[str | Segment], *, opened: bool) -> Segment:
        segment = self._segments.joined(pieces)
        if self._template.family is None:
            return segment
        if self._template.family.finish is no_return:
            if segment.is_marked and not opened:
                raise NotLocal
            return segment
        finished = self._template.family.finish(segment.end, opened)
        if finished == segment.end:
            return segment
        if not finished.startswith(segment.end):
            raise NotLocal
        return self._segments.join(segment, self._segments.of(finished[len(segment.end) :]))


def _difference(without: Sequence[str | Segment], opened: Sequence[str | Segment]) -> str | None:
    """What the second prompt has after what both begin with; None where their texts are not kept."""
    size = 0
    for one, other in zip(without, opened, strict=False):
        if one is not other and not (isinstance(one, str) and one == other):
            break
        size += 1
    texts = [
        [piece if isinstance(piece, str) else piece.text for piece in rest[size:]]
        for rest in (without, opened)
    ]
    if None in texts[0] or None in texts[1]:
        return None
    return behind("".join(map(str, texts[0])), "".join(map(str, texts[1])))
