"""The running count of a conversation by a template as ``transformers`` renders it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.content.message import Message, Object, thaw
from tokenbox.content.request import NO_FIELDS, Request
from tokenbox.conversation.llama.message_list import MessageVersions, SessionItem
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.llama.track import Track
from tokenbox.conversation.llama.turns import NotLocal
from tokenbox.conversation.sent import as_rendered, as_texts
from tokenbox.conversation.template_session import TemplateSession

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from tokenbox.content.items import Item
    from tokenbox.conversation.template_format import TransformersFormat


class TransformersSession(TemplateSession):
    """The running count of a conversation by a :class:`TransformersFormat`."""

    _format: TransformersFormat

    def __init__(self, counting: TransformersFormat) -> None:
        super().__init__(counting)
        self._variables = counting.variables(())

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        super().frame(head, tools, fields)
        self._variables = self._format.variables([thaw(tool) for tool in tools])
        self._unread = self._format.unread(fields)

    def _entry(self, item: Item, at: int = 0) -> SessionItem:
        entry = super()._entry(item, at)
        entry.is_verbatim = entry.is_verbatim and all(map(self._format.is_covered, item.messages))
        return entry

    def _versions_of(self, message: Message, number: int) -> MessageVersions:
        shown = as_rendered(message)
        texts = as_texts(shown)
        return MessageVersions(shown, shown, shown if texts == shown else texts, shown)

    def _number(self, entry: SessionItem) -> None:
        super()._number(entry)
        self._numbers.update((id(one.sent), self._numbers[id(one.final)]) for one in entry.versions)

    def _discard(self, entry: SessionItem) -> None:
        super()._discard(entry)
        self._forget(id(versions.sent) for versions in entry.versions)

    def _total(self, now: dt.datetime) -> tuple[int, bool]:
        """Try both forms of the messages, as the format does with a whole request."""
        messages, versions = self._message_list.messages, self._message_list.versions
        for form in range(2):
            shown = [one.sent for one in versions] if form else messages
            if form and shown == messages:
                break
            track = Track(
                self._memories.setdefault((form,), {}), self._segments, self._numbers, self._replaced
            )
            try:
                pieces = self._format.folded.pieces(self._variables, shown, track, self._format.now())
                return self._segments.total(self._segments.joined(pieces)), track.certain
            except TemplateTooLarge:
                raise
            except TemplateError:
                continue
        self._format.render(messages, self._variables["tools"])  # refused, too
        raise NotLocal

    def _is_proven(self, total: int, now: dt.datetime | None) -> bool:
        entries = self._entries or dict(enumerate(self._head_entries))
        last = next(reversed(entries.values())).item.messages if entries else ()
        return self._format.covers(Request(last, self._tools, fields=self._fields))
