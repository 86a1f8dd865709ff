"""The running count of a conversation by a llama.cpp template, computed incrementally."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tokenbox.content.message import Message, Object, thaw
from tokenbox.content.request import NO_FIELDS
from tokenbox.conversation.llama.compiler import Program
from tokenbox.conversation.llama.families import RETURN, no_return
from tokenbox.conversation.llama.message_list import MessageVersions, Rewriting, SessionItem
from tokenbox.conversation.llama.prompt import Prepared, added_text
from tokenbox.conversation.llama.run import Run
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
from tokenbox.conversation.sent import only_days
from tokenbox.conversation.template_session import TemplateSession

if TYPE_CHECKING:
    import datetime as dt

    from tokenbox.content.items import Item
    from tokenbox.content.message import Role
    from tokenbox.conversation.llama.segments import Segment
    from tokenbox.conversation.template_format import LlamaFormat


class LlamaSession(TemplateSession):
    """The running count of a conversation by a llama.cpp template."""

    _format: LlamaFormat

    def __init__(self, counting: LlamaFormat) -> None:
        super().__init__(counting, RETURN)
        self._template = counting.template
        self._program = Program(self._template.program.source, TrackingCompiler())
        self._frames: dict[tuple[Any, ...], Prepared] = {}
        self._pairs: dict[tuple[int, int], tuple[MessageVersions, MessageVersions, dict[str, Any]]] = {}
        self._rewriting: Rewriting | None = None
        self._overheads: dict[Role, int] = {}
        self._asked = counting.asked((), (), {})
        self._costless = True

    def frame(self, head: Sequence[Item], tools: Sequence[Object] = (), fields: Object = NO_FIELDS) -> None:
        given: dict[str, Any] = thaw(fields)
        asked = self._format.asked((), [thaw(tool) for tool in tools], given)
        before = self._asked
        self._asked = asked
        if "messages" in asked.variables:  # in place of the conversation
            self.is_incremental = False
        try:
            super().frame(head, tools, fields)
        except Exception:
            self._asked = before
            raise
        self._costless, self._unread = COSTLESS.issuperset(given), self._format.unread(given)
        self._frames, self._pairs = {}, {}

    def _rebuild(self) -> None:
        family = self._template.family
        if family is not None and family.rewrite is not None:
            self._rewriting = Rewriting(family, self._template.rewritten)
        super()._rebuild()

    def _discard(self, entry: SessionItem) -> None:
        super()._discard(entry)
        for _, _, merged in self._pairs.values():
            self._numbers.pop(id(merged), None)
        self._pairs.clear()

    # Single messages

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

    def _versions_of(self, message: Message, number: int) -> MessageVersions:
        given = message.to_dict(declared=False)
        read = read_message(given, number)
        sent = self._template.adapted(read)
        return MessageVersions(given, read, sent, self._final(sent))

    def _final(self, sent: dict[str, Any]) -> dict[str, Any]:
        return self._template.adjusted(sent, self._asked.variables)

    # Complete requests

    def _is_proven(self, total: int, now: dt.datetime | None) -> bool:
        last = self._message_list.versions[-2:]
        if not self._costless or not can_be_sent([versions.given for versions in last]):
            return False
        others = self._format.others(self._asked, now)
        return all(self._total_of(asked, day)[0] == total for asked, day in others)

    def _total(self, now: dt.datetime) -> tuple[int, bool]:
        return self._total_of(self._asked, now)

    def _total_of(self, asked: ServerRequest, now: dt.datetime) -> tuple[int, bool]:
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
