"""The running count of a conversation by a llama.cpp template, computed incrementally."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenbox.compose.requests import By, Count
from tokenbox.content.message import Message, Object, Role, thaw
from tokenbox.content.request import Request
from tokenbox.conversation.llama.compiler import Program
from tokenbox.conversation.llama.families import RETURN, no_return
from tokenbox.conversation.llama.message_list import MessageList, MessageVersions, Rewriting, SessionItem
from tokenbox.conversation.llama.prompt import Prepared, added_text
from tokenbox.conversation.llama.run import Run
from tokenbox.conversation.llama.segments import Segment, Segments
from tokenbox.conversation.llama.server_request import (
    COSTLESS,
    ServerRequest,
    can_be_sent,
    continuation,
    prefill_of,
    read_message,
)
from tokenbox.conversation.llama.track import Track
from tokenbox.conversation.llama.tracked import TrackedMessages
from tokenbox.conversation.llama.tracking import TrackingCompiler
from tokenbox.conversation.llama.turns import Memories, NotLocal
from tokenbox.conversation.pieces import NO_FIELDS, WholeSession
from tokenbox.conversation.sent import SOME_DAY, in_chat_shape, only_days

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.content.items import Item
    from tokenbox.conversation.template_format import LlamaFormat

_GAPS: Final = 64  # removed messages between others, after which all are renumbered


class _Foreseen(NamedTuple):
    """The total of the messages without the ``removed`` items on a day, and whether it is certain."""

    removed: frozenset[int]
    day: dt.date
    total: tuple[int, bool]


class LlamaSession(WholeSession):
    """The running count of a conversation to which messages are added and from which they are removed.

    ``is_incremental``: False once the template has done something that cannot be tracked; then every count
    renders the entire request.
    """

    def __init__(self, counting: LlamaFormat) -> None:
        super().__init__(counting)
        self._format = counting
        self._template = counting.template
        self._program = Program(self._template.program.source, TrackingCompiler())
        self._segments = Segments(counting.prompts, RETURN)
        self._memories: dict[tuple[Any, ...], Memories] = {}
        self._frames: dict[tuple[Any, ...], Prepared] = {}
        self._pairs: dict[tuple[int, int], tuple[MessageVersions, MessageVersions, dict[str, Any]]] = {}
        self._numbers: dict[int, int] = {}
        self._replaced = 0
        self._overheads: dict[Role, int] = {}
        self._head_entries: list[SessionItem] = []
        self._entries: dict[int, SessionItem] = {}
        self._message_list = MessageList()
        self._known_bound = 0
        self._without_bound: list[SessionItem] = []
        self._foreseen: _Foreseen | None = None
        self._rewriting: Rewriting | None = None
        self.is_incremental = True
        self._asked = counting.asked((), (), {})
        self._costless, self._unread = True, 0

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        given: dict[str, Any] = thaw(fields)
        asked = self._format.asked((), [thaw(tool) for tool in tools], given)
        before = self._asked
        self._asked = asked
        if "messages" in asked.variables:  # in place of the conversation
            self.is_incremental = False
        try:
            entry = [self._entry(item) for item in head]
            others = {number: self._entry(one.item) for number, one in self._entries.items()}
        except Exception:
            self._asked = before
            raise
        super().frame(head, tools, fields)
        self._head_entries, self._entries = entry, others
        self._costless, self._unread = COSTLESS.issuperset(given), self._format.unread(given)
        self._frames, self._memories, self._pairs = {}, {}, {}
        self._known_bound, self._without_bound = 0, [*entry, *others.values()]
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the message list and renumber all messages."""
        family = self._template.family
        if family is not None and family.rewrite is not None:
            self._rewriting = Rewriting(family, self._template.rewritten)
        self._message_list, self._numbers = MessageList(), {}
        at = -sum(len(entry.versions) for entry in self._head_entries)
        head = enumerate(self._head_entries, -len(self._head_entries))
        for number, entry in (*head, *self._entries.items()):
            entry.at, at = at, at + len(entry.versions)
            self._message_list.add(number, entry)
            self._number(entry)
        self._foreseen = None

    def add(self, number: int, item: Item) -> None:
        last = next(reversed(self._entries.values()), None)
        entry = self._entry(item, 0 if last is None else last.at + len(last.versions))
        self._entries[number] = entry
        self._without_bound.append(entry)
        self._message_list.add(number, entry)
        self._number(entry)
        self._foreseen = None
        super().add(number, item)

    def replace(self, number: int, item: Item) -> None:
        before = self._entries[number]
        entry = self._entries[number] = self._in_place_of(before, item)
        self._without_bound.append(entry)
        self._message_list.change({number: (before, entry)})
        self._discard(before)
        self._number(entry)
        self._replaced += 1
        self._foreseen = None
        super().replace(number, item)

    def remove(self, numbers: Collection[int]) -> None:
        removed = {number: self._entries.pop(number) for number in numbers}
        self._message_list.change({number: (entry, None) for number, entry in removed.items()})
        for entry in removed.values():
            self._discard(entry)
        foreseen, self._foreseen = self._foreseen, None
        super().remove(numbers)
        if foreseen is not None and foreseen.removed == removed.keys():
            self._foreseen = _Foreseen(frozenset(), foreseen.day, foreseen.total)
        if self._entries:
            first, last = next(iter(self._entries.values())), next(reversed(self._entries.values()))
            if last.at + len(last.versions) - first.at > 2 * len(self._message_list.versions) + _GAPS:
                self._rebuild()

    def count(self) -> Count:
        if self._count is None and self.is_incremental:
            try:
                self._count = self._count_incrementally()
            except NotLocal:
                self.is_incremental = False
        return super().count()

    def total_with(self, changes: Mapping[int, Item | None]) -> int:
        if not changes:
            return self.count().total
        present = self._entries
        others = {n: self._in_place_of(present[n], item) for n, item in changes.items() if item is not None}
        message_list = self._message_list
        message_list.change({number: (present[number], others.get(number)) for number in changes})
        for entry in others.values():
            self._number(entry)
        self._replaced += len(others)
        try:
            if self.is_incremental:
                now = self._format.now() or SOME_DAY
                total = self._total(self._asked, now)
                self._foreseen = None if others else _Foreseen(frozenset(changes), now.date(), total)
                return total[0] + message_list.media + self._unread
        except NotLocal:
            self.is_incremental = False
        finally:
            message_list.change({number: (others.get(number), present[number]) for number in changes})
            for entry in others.values():
                self._discard(entry)
            self._replaced += len(others)
        return super().total_with(changes)

    def cost(self, item: Item) -> int:
        return sum(map(self._size, item.messages))

    def _size(self, message: Message) -> int:
        """Return the estimated size of a message; the overhead of a role is counted once."""
        content = message.content
        if not isinstance(content, str) or len(message.source) != 2:  # role and content
            return self._format.message_size(message)
        text = self._format.count_text(content)
        if message.role not in self._overheads:
            self._overheads[message.role] = self._format.message_size(message) - text
        return max(0, text + self._overheads[message.role])

    def _discard(self, entry: SessionItem) -> None:
        """Discard the records of a removed item."""
        entry.removed = True
        self._known_bound -= entry.bound or 0
        self._forget(id(versions.final) for versions in entry.versions)
        for _, _, merged in self._pairs.values():
            self._numbers.pop(id(merged), None)
        self._pairs.clear()

    def _number(self, entry: SessionItem) -> None:
        """Number the messages of an item consecutively; adjacent turns are joined by these numbers."""
        for place, versions in enumerate(entry.versions):
            self._numbers[id(versions.final)] = entry.at + place

    # Single messages

    def _entry(self, item: Item, at: int = 0) -> SessionItem:
        media, messages = sum(map(self._format.media, item.messages)), in_chat_shape(item.messages)
        numbered = enumerate(messages, at) if self.is_incremental else ()
        versions = [self._versions_of(message, number) for number, message in numbered]
        is_verbatim = item.verbatim and messages is item.messages
        return SessionItem(item, versions, media, at, is_verbatim)

    def _in_place_of(self, before: SessionItem, item: Item) -> SessionItem:
        """Return the other form of an item, with the numbers of its messages."""
        entry = self._entry(item, before.at)
        if len(entry.versions) > len(before.versions):  # two messages would have one number
            self.is_incremental = False
        return entry

    def _versions_of(self, message: Message, number: int) -> MessageVersions:
        given = message.to_dict(declared=False)
        read = read_message(given, number)
        sent = self._template.adapted(read)
        return MessageVersions(given, read, sent, self._final(sent))

    def _final(self, sent: dict[str, Any]) -> dict[str, Any]:
        return self._template.adjusted(sent, self._asked.variables)

    # Complete requests

    def _count_incrementally(self) -> Count:
        message_list, now = self._message_list, self._format.now()
        foreseen, day = self._foreseen, (now or SOME_DAY).date()
        if foreseen is not None and not foreseen.removed and foreseen.day == day:
            total, certain = foreseen.total
        else:
            total, certain = self._total(self._asked, now or SOME_DAY)
        proven = certain and self._format.exact and self._costless
        proven = proven and not message_list.changed
        exact = proven and can_be_sent([versions.given for versions in message_list.versions[-2:]])
        if exact:
            others = self._format.others(self._asked, now)
            exact = all(self._total(asked, day)[0] == total for asked, day in others)
        total += message_list.media + self._unread
        return Count(total, exact, total if exact else max(total, self._bound()), By.TEMPLATE)

    def _bound(self) -> int:
        bound = self._format.bound
        for entry in self._without_bound:
            if entry.bound is None and not entry.removed:
                raw = 0 if entry.item.verbatim else bound.value(entry.item.raw, media=True)
                entry.bound = raw + sum(map(bound.message, entry.item.messages))
                self._known_bound += entry.bound
        self._without_bound = []
        return self._known_bound + bound.frame(Request(tools=self._tools, fields=self._fields))

    def _total(self, asked: ServerRequest, now: dt.datetime) -> tuple[int, bool]:
        """Return the total, and True if every operation is certain to equal the server's."""
        key = (now.date(), asked.variables.get("preserve_reasoning"))
        prepared = self._frames.get(key)
        if prepared is None:
            if len(self._frames) > 8:  # of past days
                self._frames, self._memories = {}, {}
            prepared = self._frames[key] = self._template.frame(asked, now)
        memories = self._memories.setdefault(key, {})
        versions = self._message_list.versions
        last = versions[-1] if versions else None
        continued, opened = continuation([last.read] if last else [], asked)
        prefill = None if continued is None or last is None else prefill_of(last.read, continued)
        continues = continued is not None and last is not None
        with self._shown(continues=continues) as shown:
            pieces, run = self._pieces(prepared, shown, now, memories, opened=opened)
            segment = self._finished(self._without_start(pieces), opened=opened)
            if prefill is not None:

                def opening() -> str:
                    """Render both by the same records, so the first again if it has made any."""
                    without = pieces
                    if run.track is None or run.track.has_recorded:
                        without = self._pieces(prepared, shown, now, memories, opened=False)[0]
                    opened = self._pieces(prepared, shown, now, memories, opened=True)[0]
                    found = _difference(without, opened)
                    if found is not None:
                        return found
                    whole = replace(prepared, variables={**prepared.variables, "messages": shown})
                    return self._template.opening(whole, Run(now))

                text = self._template.begin(prepared, prefill, segment.end, opening)
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
        run.track = Track(memories, self._segments, self._numbers, self._replaced)
        variables = {**prepared.variables, "messages": TrackedMessages(messages, run.track)}
        if opened:
            variables["add_generation_prompt"] = True
        return self._program.pieces(variables, run), run

    @contextmanager
    def _shown(self, *, continues: bool) -> Iterator[list[dict[str, Any]]]:
        """Give the messages as the template sees them; an unsupported system message is merged.

        ``continues``: without the last one. They are changed in place meanwhile: a copy of a long list costs.
        """
        messages, versions = self._message_list.messages, self._message_list.versions
        size = len(versions) - continues
        merges = size and not self._template.capabilities.system_role and versions[0].sent["role"] == "system"
        first = versions[: min(2, size)] if merges else []
        merged = self._merged(first)
        last = messages[size:]
        del messages[size:]
        messages[: len(first)] = merged
        try:
            yield messages if self._rewriting is None else self._rewritten(self._rewriting, messages)
        finally:
            messages[: len(merged)] = [one.final for one in first]
            messages += last

    def _merged(self, first: Sequence[MessageVersions]) -> list[dict[str, Any]]:
        """Return the message that a leading system message and the next one are merged to."""
        if len(first) < 2:
            return []
        key = id(first[0]), id(first[1])
        if key not in self._pairs:
            both = self._template.sent([one.read for one in first])
            self._pairs[key] = first[0], first[1], self._final(both[0])
        merged = self._pairs[key][2]
        self._numbers[id(merged)] = -1
        return [merged]

    def _rewritten(self, rewriting: Rewriting, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages as rewritten together, with numbers of their own."""
        shown, changed, gone = rewriting.of(messages)
        self._forget(map(id, gone))
        if changed < len(shown) or gone:
            self._replaced += 1  # others may stand between those of a recorded run than before
        start = self._numbers.get(id(shown[0]), 0) if shown else 0
        self._numbers.update((id(one), start + at) for at, one in enumerate(shown[changed:], changed))
        return shown

    def _forget(self, messages: Iterable[int]) -> None:
        """Discard the records of messages that are no more, by their identities."""
        for message in messages:
            self._numbers.pop(message, None)
            for memories in self._memories.values():
                for memory in memories.values():
                    memory.pop(message, None)

    def _without_start(self, pieces: Sequence[str | Segment]) -> list[str | Segment]:
        """Remove the start token that the tokenizer adds itself."""
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
    """Return the second prompt without the common prefix; None if the texts of segments are not kept."""
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
    return added_text("".join(map(str, texts[0])), "".join(map(str, texts[1])))
