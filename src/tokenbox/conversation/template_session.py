"""The running count of a conversation by a chat template: only what is new is rendered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tokenbox.compose.requests import By, Count
from tokenbox.content.request import NO_FIELDS, Request
from tokenbox.conversation.llama.message_list import MessageList, MessageVersions, SessionItem
from tokenbox.conversation.llama.segments import Segments
from tokenbox.conversation.llama.syntax import TemplateTooLarge
from tokenbox.conversation.llama.turns import Memories, NotLocal
from tokenbox.conversation.pieces import WholeSession
from tokenbox.conversation.sent import SOME_DAY, in_chat_shape

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.content.items import Item
    from tokenbox.content.message import Message, Object
    from tokenbox.conversation.template_format import TemplateFormat

_GAPS: Final = 64  # removed messages between others, after which all are renumbered


class _Foreseen(NamedTuple):
    """The certain total of the messages without the ``removed`` items on a day."""

    removed: frozenset[int]
    day: dt.date
    total: int


class TemplateSession(WholeSession):
    """The running count of a conversation to which messages are added and from which they are removed.

    ``mark``: a text that :class:`Segments` searches for. ``is_incremental``: False once the template has done
    something that cannot be tracked; then every count renders the entire request.
    """

    def __init__(self, counting: TemplateFormat, mark: str | None = None) -> None:
        super().__init__(counting)
        self._format = counting
        self._segments = Segments(counting.prompts, mark)
        self._memories: dict[tuple[Any, ...], Memories] = {}
        self._numbers: dict[int, int] = {}
        self._replaced = 0
        self._head_entries: list[SessionItem] = []
        self._entries: dict[int, SessionItem] = {}
        self._message_list = MessageList()
        self._known_bound = 0
        self._without_bound: list[SessionItem] = []
        self._foreseen: _Foreseen | None = None
        self._unread = 0  # tokens of fields whose effect on the prompt is unknown
        self.is_incremental = True

    @abstractmethod
    def _versions_of(self, message: Message, number: int) -> MessageVersions:
        """Return the message as given and as the template sees it."""

    @abstractmethod
    def _total(self, now: dt.datetime) -> tuple[int, bool]:
        """Return the total, and True if every operation is certain to equal the server's."""

    @abstractmethod
    def _is_proven(self, total: int, now: dt.datetime | None) -> bool:
        """Return True if the server is proven to count this total, which is certain."""

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        entry = [self._entry(item) for item in head]
        others = {number: self._entry(one.item) for number, one in self._entries.items()}
        super().frame(head, tools, fields)
        self._head_entries, self._entries = entry, others
        self._memories = {}
        self._known_bound, self._without_bound = 0, [*entry, *others.values()]
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the message list and renumber all messages."""
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
            except (NotLocal, TemplateTooLarge):
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
                total, certain = self._total(now)
                is_kept = certain and not others
                self._foreseen = _Foreseen(frozenset(changes), now.date(), total) if is_kept else None
                return total + message_list.media + self._unread
        except (NotLocal, TemplateTooLarge):
            self.is_incremental = False
        finally:
            message_list.change({number: (others.get(number), present[number]) for number in changes})
            for entry in others.values():
                self._discard(entry)
            self._replaced += len(others)
        return super().total_with(changes)

    def _discard(self, entry: SessionItem) -> None:
        """Discard the records of a removed item."""
        entry.removed = True
        self._known_bound -= entry.bound or 0
        self._forget(id(versions.final) for versions in entry.versions)

    def _number(self, entry: SessionItem) -> None:
        """Number the messages of an item consecutively; adjacent turns are joined by these numbers."""
        for place, versions in enumerate(entry.versions):
            self._numbers[id(versions.final)] = entry.at + place

    def _forget(self, messages: Iterable[int]) -> None:
        """Discard the records of messages that are no more, by their identities."""
        for message in messages:
            self._numbers.pop(message, None)
            for memories in self._memories.values():
                for memory in memories.values():
                    memory.pop(message, None)

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

    def _count_incrementally(self) -> Count:
        message_list, now = self._message_list, self._format.now()
        foreseen, day = self._foreseen, (now or SOME_DAY).date()
        if foreseen is not None and not foreseen.removed and foreseen.day == day:
            total, certain = foreseen.total, True
        else:
            total, certain = self._total(now or SOME_DAY)
        proven = certain and self._format.exact and not message_list.changed
        exact = proven and self._is_proven(total, now)
        total += message_list.media + self._unread
        return Count(total, exact, total if exact else max(total, self._bound()), By.TEMPLATE)

    def _bound(self) -> int:
        bound = self._format.bound
        for entry in self._without_bound:
            if entry.bound is None and not entry.removed:
                item = entry.item
                raw = 0 if item.verbatim else bound.beside(item.raw, item.messages)
                entry.bound = raw + sum(map(bound.message, item.messages))
                self._known_bound += entry.bound
        self._without_bound = []
        return self._known_bound + bound.frame(Request(tools=self._tools, fields=self._fields))
