"""Layout of sections as chat messages: the whole is the request, including its markers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tokenbox.compose.parts import LinearWhole
from tokenbox.compose.requests import Count, CountsPieces, RequestCounter, count_by
from tokenbox.content.message import InvalidMessage, Message
from tokenbox.content.request import Request
from tokenbox.errors import LayoutError

if TYPE_CHECKING:
    from tokenbox.compose.counting import Counter
    from tokenbox.content.section import Section

# The assumed overhead of a message and of a request, until a count of the whole corrects it.
_PER_MESSAGE: Final = 8
_PER_REQUEST: Final = 16
_PROBE: Final = "x"


def check_roles(sections: Sequence[Section]) -> None:
    """Check the roles. Raises :class:`LayoutError` if one is missing, ``InvalidMessage`` if it is unknown."""
    for section in sections:
        if section.role is None:
            raise LayoutError(
                f"section {section.id!r} has no role, so there are no messages to count. "
                "Give every section a role, or lay out with a tokenizer of texts.",
                id=section.id,
            )
        try:
            _message(section.role, _PROBE)
        except InvalidMessage as error:
            raise InvalidMessage(f"section {section.id!r}: {error.message}") from None


def are_messages(sections: Sequence[Section]) -> bool:
    """Return whether the sections can be sent as messages: each has a role."""
    return bool(sections) and all(section.role is not None for section in sections)


def messages_of(sections: Sequence[Section], texts: Sequence[str]) -> list[dict[str, str]]:
    """Return one message for each section with text. Raises :class:`LayoutError` if one has no role."""
    messages = []
    for section, text in zip(sections, texts, strict=True):
        if not text:
            continue
        if not section.role:
            raise LayoutError(
                f"section {section.id!r} has no role, so there are no messages. "
                "Give every section a role, or use the text.",
                id=section.id,
            )
        messages.append({"role": section.role, "content": text})
    return messages


def count_of_messages(
    sections: Sequence[Section], texts: Sequence[str], requests: RequestCounter
) -> Count | None:
    """Count the request; None if there are no messages to send."""
    sent = request_of(sections, texts)
    return count_by(requests, sent) if sent.messages else None


def request_of(sections: Sequence[Section], texts: Sequence[str]) -> Request:
    """Return the request of the sections with text. Raises :class:`LayoutError` if one has no role."""
    return Request(tuple(map(Message.of, messages_of(sections, texts))))


class MessagesWhole(LinearWhole):
    """The pricing of messages: a message costs its text and a constant per role, a request another constant.

    ``correction``: the difference found by counting an emitted whole; it is added to every total.
    """

    priced = "sections as messages, with their markers,"

    def __init__(
        self,
        sections: Sequence[Section],
        separator: str,
        counter: Counter,
        requests: RequestCounter,
        correction: int,
    ) -> None:
        self.correction = correction
        self._requests = requests
        self._around, self._of_role = _overheads(sections, counter, requests)
        self.pricing = "exact" if isinstance(requests, CountsPieces) else "conservative"
        sizes = counter.sizes(sections)
        super().__init__(sections, separator, sizes, counter)
        self._set_weights(list(map(self._weigh, range(len(sizes)), self.texts, sizes)), 0)

    def total_of(self, indices: Iterable[int]) -> int:
        if self.pricing == "exact":
            return super().total_of(indices)
        counted = self._count(indices)
        return 0 if counted is None else counted.total

    def is_exact(self, indices: Iterable[int]) -> bool:
        counted = self._count(indices)
        return counted is None or counted.exact

    def _count(self, indices: Iterable[int]) -> Count | None:
        these = [self.sections[i] for i in indices]
        return count_of_messages(these, [section.content for section in these], self._requests)

    def _weigh(self, i: int, text: str, size: int) -> int:
        return max(1, size + self._of_role[i]) if text else 0

    def _count_of(self, weight: int) -> int:
        return max(0, weight + self._around + self.correction) if weight else 0


def _overheads(
    sections: Sequence[Section], counter: Counter, requests: RequestCounter
) -> tuple[int, list[int]]:
    """Return the overhead of a request, and of each section's message."""
    if not isinstance(requests, CountsPieces):
        return _PER_REQUEST, [_PER_MESSAGE] * len(sections)
    probe = counter.small(_PROBE)
    roles = {section.role or "" for section in sections}
    adds = {role: requests.piece(_message(role, _PROBE)).total - probe for role in sorted(roles)}
    return requests.frame(Request()).total, [adds[section.role or ""] for section in sections]


def _message(role: str, text: str) -> Message:
    return Message.of({"role": role, "content": text})
