"""The running count of a conversation by a llama.cpp template: what did not change is not done again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tokenbox.compose.requests import By, Count
from tokenbox.content.message import Message, Object, thaw
from tokenbox.content.request import Request
from tokenbox.conversation.llama.families import RETURN, no_return
from tokenbox.conversation.llama.fold import Following, History, NotLocal, Track
from tokenbox.conversation.llama.prompt import COSTLESS, begun_by, behind, can_be_sent, ending, read_message
from tokenbox.conversation.llama.run import Program, Run
from tokenbox.conversation.llama.segments import Segment, Segments
from tokenbox.conversation.pieces import MEDIA
from tokenbox.conversation.sent import SOME_DAY, only_days, without_media

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tokenbox.content.items import Item
    from tokenbox.conversation.llama.fold import Memory
    from tokenbox.conversation.llama.prompt import Asked, Prepared
    from tokenbox.conversation.template_format import LlamaFormat

    Memories = dict[tuple[int, int], Memory]


@dataclass(slots=True)
class _Said:
    """One message: as the caller gave it, as the server reads it, as it is sent, as the template sees it."""

    given: dict[str, Any]
    read: dict[str, Any]
    sent: dict[str, Any]
    final: dict[str, Any]


@dataclass(slots=True)
class _Held:
    """One item of the conversation."""

    item: Item
    said: list[_Said]
    media: int
    bound: int | None = None
    gone: bool = False


class _Line:
    """The messages of a request, one after another."""

    def __init__(self, held: Iterable[_Held]) -> None:
        self.held: list[_Held] = []
        self.said: list[_Said] = []
        self.messages: list[dict[str, Any]] = []
        self.ids: set[int] = set()
        self.media = 0
        self.verbatim = True
        for one in held:
            self.add(one)

    def add(self, held: _Held) -> None:
        self.held.append(held)
        self.said += held.said
        self.messages += [said.final for said in held.said]
        self.ids.update(id(said.final) for said in held.said)
        self.media += held.media
        self.verbatim = self.verbatim and held.item.verbatim


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
        self._head: list[_Held] = []
        self._held: dict[int, _Held] = {}
        self._line: _Line | None = None
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
        except Exception:
            self._asked = before
            raise
        self._head, self._tools = held, tuple(tools)
        self._fields = Object() if fields is None else fields
        self._costless = COSTLESS.issuperset(given)
        self._frames, self._memories = {}, {}
        for other in self._held.values():
            other.said = self._hold(other.item).said
        self._bounded, self._unbounded = 0, [*self._head, *self._held.values()]
        for other in self._unbounded:
            other.bound = None
        self._line = self._count = None

    def add(self, number: int, item: Item) -> None:
        held = self._hold(item)
        self._held[number] = held
        self._unbounded.append(held)
        if self._line is not None:
            self._line.add(held)
        self._count = None

    def replace(self, number: int, item: Item) -> None:
        held = self._hold(item)
        self._forget(self._held[number])
        self._held[number] = held
        self._unbounded.append(held)
        self._line = self._count = None

    def remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self._forget(self._held.pop(number))
        self._line = self._count = None

    def count(self) -> Count:
        if self._count is None:
            if self._line is None:
                self._line = _Line([*self._head, *self._held.values()])
            self._count = self._counted(self._line, whole=True)
        return self._count

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        if not changes:
            return self.count().total
        others = {number: self._hold(item) for number, item in changes.items() if item is not None}
        here = [
            others.get(number, held)
            for number, held in self._held.items()
            if number in others or number not in changes
        ]
        try:
            return self._counted(_Line([*self._head, *here])).total
        finally:
            for held in others.values():
                self._forget(held)

    def size(self, number: int) -> int:
        return self.cost(self._held[number].item)

    def cost(self, item: Item) -> int:
        return sum(self._format.message_sizes(item.messages))

    def _forget(self, held: _Held) -> None:
        """What is remembered of messages that are no longer here."""
        held.gone = True
        self._bounded -= held.bound or 0
        for said in held.said:
            for memories in self._memories.values():
                for memory in memories.values():
                    memory.single.pop(id(said.final), None)
                    memory.blocks.pop(id(said.final), None)
        self._pairs.clear()

    # One message

    def _hold(self, item: Item) -> _Held:
        media = sum(len(message.media) for message in item.messages)
        messages = without_media(item.messages)[0] if media else item.messages
        said = [self._say(message) for message in messages] if self.follows else []
        return _Held(item, said, media)

    def _say(self, message: Message) -> _Said:
        given = message.to_dict(declared=False)
        read = read_message(given)
        sent = self._template.adapted(read)
        return _Said(given, read, sent, self._final(sent))

    def _final(self, sent: dict[str, Any]) -> dict[str, Any]:
        return self._template.final([sent], self._asked.variables)[0]

    # The whole

    def _counted(self, line: _Line, *, whole: bool = False) -> Count:
        """The count of these messages; ``whole``, if they are all that is here."""
        if self.follows:
            try:
                return self._followed(line, whole=whole)
            except NotLocal:
                self.follows = False
        return self._format.count_request(self._request([held.item for held in line.held]))

    def _request(self, items: Sequence[Item]) -> Request:
        return Request(
            tuple(message for item in items for message in item.messages),
            self._tools,
            fields=self._fields,
            places=tuple(place for place, item in enumerate(items) for _ in item.messages),
            verbatim=all(item.verbatim for item in items),
            raw=tuple(item.raw for item in items if not item.verbatim),
        )

    def _followed(self, line: _Line, *, whole: bool) -> Count:
        now = self._format.now()
        total, certain = self._total(line, self._asked, now or SOME_DAY)
        if not whole:  # only the total is asked for
            total += line.media * MEDIA
            return Count(total, exact=False, at_most=total, by=By.TEMPLATE)
        proven = certain and self._format.exact and self._costless and line.verbatim and not line.media
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

    def _total(self, line: _Line, asked: Asked, now: dt.datetime) -> tuple[int, bool]:
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
        ids = line.ids
        pieces, run = self._pieces(prepared, shown, ids, now, memories, opened=opened)
        segment = self._finished(self._trimmed(pieces), opened=opened)
        if begun is not None:

            def opening() -> str:
                """Both renders are made anew, so that both go by what is remembered now."""
                without = self._pieces(prepared, shown, ids, now, memories, opened=False)[0]
                opened = self._pieces(prepared, shown, ids, now, memories, opened=True)[0]
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
        ids: set[int],
        now: dt.datetime,
        memories: Memories,
        *,
        opened: bool,
    ) -> tuple[list[str | Segment], Run]:
        run = Run(now)
        run.track = Track(memories, self._segments, ids)
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
            line.ids.add(id(merged))
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
