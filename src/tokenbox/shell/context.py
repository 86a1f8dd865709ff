"""The context: everything that a request consists of, as items that the user can list, pin and drop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tokenbox.content.message import Message, Role
from tokenbox.providers.counting import TokenCount
from tokenbox.records import to_record
from tokenbox.shell.attaching import Attached
from tokenbox.shell.errors import NoSuchItem

if TYPE_CHECKING:
    from tokenbox.content.items import Item
    from tokenbox.conversation import Conversation, Enforced
    from tokenbox.ledger import Call
    from tokenbox.shell.memory import Instructions
    from tokenbox.shell.models import Models
    from tokenbox.shell.outputs import OutputOffer

# Offered outputs take at most 1/OFFERS_PART of the budget, so that the question fits too.
OFFERS_PART: Final = 2
NOTHING_ATTACHED: Final = Attached()
ABOUT_LENGTH: Final = 200
"""Characters of an item that identify it in a list."""


class ContextKind(StrEnum):
    SYSTEM = "system prompt"
    PROJECT = "project"
    MEMORY = "memory"
    SUMMARY = "summary"
    TOOLS = "tools"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool result"
    OFFER = "output on offer"
    TEMPLATE = "roles and template"


_KINDS: Final = {
    Role.USER: ContextKind.USER,
    Role.ASSISTANT: ContextKind.ASSISTANT,
    Role.TOOL: ContextKind.TOOL,
}


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A row of ``:context``. ``number``: None if it cannot be pinned or dropped. ``age``: in exchanges."""

    kind: ContextKind
    about: str
    tokens: int
    exact: bool
    number: int | None = None
    age: int | None = None
    pinned: bool = False

    def to_dict(self) -> dict[str, object]:
        return to_record(self, "number kind about tokens exact age pinned")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it was typed, and the outputs that were on offer."""

    text: str
    offers: tuple[OutputOffer, ...]


@dataclass(slots=True, eq=False)
class Context:
    """The parts of the system prompt, the conversation, and the offered outputs.

    Every figure that is shown, and every decision, comes from :meth:`total`, counted for the current model.
    """

    conversation: Conversation
    models: Models
    base: str
    tools: Callable[[], Sequence[Mapping[str, Any]]]
    notes: Callable[[], Sequence[str]]
    project: Instructions | None = None
    offers: list[OutputOffer] = field(default_factory=list)
    asked: dict[int, Asked] = field(default_factory=dict)
    """The questions of this process by their numbers, as they were typed."""

    @property
    def budget(self) -> int:
        budget = self.conversation.token_budget
        assert budget is not None  # noqa: S101  # a shell always has one
        return budget

    @property
    def window(self) -> dict[int, Message]:
        """The messages of the conversation by their numbers."""
        return {number: item.messages[0] for number, item in self.conversation.window.items()}

    def system_parts(self) -> list[tuple[ContextKind, str]]:
        """Return the non-empty parts of the system prompt in order, without the summary."""
        notes = "\n".join(f"- {note}" for note in self.notes())
        project = None if self.project is None else self.project.text
        parts = (
            (ContextKind.SYSTEM, self.base),
            (ContextKind.PROJECT, f"Instructions of this project:\n{project}" if project else ""),
            (ContextKind.MEMORY, f"What the user wants you to remember:\n{notes}" if notes else ""),
        )
        return [(kind, text) for kind, text in parts if text]

    def refresh(self) -> None:
        """Update the conversation with the current notes, project instructions and tools."""
        system = "\n\n".join(text for _, text in self.system_parts())
        if system != self.conversation.system:
            self.conversation.system = system
        tools = list(self.tools()) or None
        if tools != self.conversation.tools:
            self.conversation.tools = tools

    def messages(self, *, offered: bool = False) -> list[dict[str, Any]]:
        """Return the messages of the next request; ``offered`` includes the offered outputs."""
        self.refresh()
        messages = self.conversation.messages
        if offered and self.offers:
            messages.append({"role": "user", "content": self._with_offers("")})
        return messages

    def total(self, *, offered: bool = False) -> TokenCount:
        """Count the next request, including tools and template."""
        messages = self.messages(offered=offered)
        return self.models.count_request(messages, self.conversation.tools or ())

    def about(self, last: Call | None) -> TokenCount:
        """Return :meth:`total` with the offered outputs, for a prompt that is shown often.

        It never asks the server: if the server has not counted this request, its usage for the last one plus
        what was added since is the estimate.
        """
        messages = self.messages(offered=True)
        counted = self.models.counted_before(messages, self.conversation.tools or ())
        if counted is not None:
            return counted
        used = None if last is None else last.usage
        if used is None or used.input_tokens is None or used.output_tokens is None:
            return self.total(offered=True)
        offered = sum(self.models.count_here(offer.text).value for offer in self.offers)
        return TokenCount(used.input_tokens + used.output_tokens + offered, exact=False, source="usage")

    def without(self, numbers: Collection[int]) -> TokenCount:
        """Return the :meth:`total`, offered outputs included, without these messages."""
        system = self.conversation.system_prompt
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        window = self.conversation.window
        kept = [item for number, item in window.items() if number not in numbers]
        messages += [message.to_dict(declared=False) for item in kept for message in item.messages]
        if self.offers:
            messages.append({"role": "user", "content": self._with_offers("")})
        return self.models.count_request(messages, self.conversation.tools or ())

    def offer(self, offer: OutputOffer) -> list[OutputOffer]:
        """Add an output for the next question. Return the oldest offers, which are removed to make room."""
        self.offers.append(offer)
        room, removed = self.budget // OFFERS_PART, []
        while len(self.offers) > 1 and sum(self.models.count_text(o.text).value for o in self.offers) > room:
            removed.append(self.offers.pop(0))
        return removed

    def ask(self, text: str, attached: Attached = NOTHING_ATTACHED) -> int:
        """Add the question, with the offered outputs before it, as a message. Return its number."""
        whole = self._with_offers(text, attached.offers)
        content = [{"type": "text", "text": whole}, *attached.images] if attached.images else whole
        number = self.conversation.add({"role": "user", "content": content})
        self.asked[number] = Asked(text, tuple(self.offers))
        self.offers = []
        return number

    def ask_shorter(self, number: int, text: str) -> int:
        """Replace the last message, a question, by one with this text. Return its number."""
        content = self.window[number].to_dict(declared=False)["content"]
        images = content[1:] if isinstance(content, list) else []
        self.conversation.drop(number)
        parts = [{"type": "text", "text": text}, *images] if images else text
        shorter = self.conversation.add({"role": "user", "content": parts})
        self.asked[shorter] = self.asked[number]
        return shorter

    def take_back(self, number: int, offers: Sequence[OutputOffer]) -> None:
        if number in self.conversation.window:
            self.conversation.drop(number)
        self.offers = [*offers, *self.offers]

    def evict(self) -> tuple[dict[int, Item], Enforced]:
        """Evict the oldest exchanges until both limits hold, or nothing more may be evicted.

        Return the evicted messages by their numbers, and what was done.
        """
        self.refresh()
        before = self.conversation.window
        enforced = self.conversation.enforce_budget()
        after = self.conversation.window
        return {number: item for number, item in before.items() if number not in after}, enforced

    def exchange(self, number: int) -> list[int]:
        """Return the exchange of a message: from a user's message to before the next. Raises NoSuchItem."""
        found: list[int] = []
        window = self.conversation.window
        if number not in window:
            raise NoSuchItem(
                f"the context has no item {number}. :context shows the items and their numbers.",
                number=number,
            )
        for other, message in window.items():
            if message.role is Role.USER:
                if number in found:
                    break
                found = []
            found.append(other)
        return found

    def drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self.conversation.window:  # dropping one message may drop others with it
                self.conversation.drop(number)

    def items(self) -> list[ContextRow]:
        """Return every item of the next request. Their tokens add up to :meth:`total`."""
        whole = self.total(offered=True)
        found = [self._item(kind, text, text) for kind, text in self.system_parts()]
        summary = self.conversation.summary
        if summary:
            found.append(self._item(ContextKind.SUMMARY, summary, summary))
        if self.conversation.tools:
            about = ", ".join(str(tool["function"]["name"]) for tool in self.tools())
            without = self.models.count_request(self.messages(offered=True), ())
            exact = whole.exact and without.exact
            found.append(ContextRow(ContextKind.TOOLS, about, max(0, whole.value - without.value), exact))
        window = self.window
        for item in self.conversation.items():
            if item.number is not None:
                message = window[item.number]
                kind, text = _KINDS.get(message.role, ContextKind.SYSTEM), message.counted_text
                found.append(
                    self._item(kind, _about(message), text, item.number, item.age, pinned=item.pinned)
                )
        found += [self._item(ContextKind.OFFER, f"$ {o.command}", o.text, age=0) for o in self.offers]
        rest = whole.value - sum(item.tokens for item in found)
        if rest:
            found.append(
                ContextRow(ContextKind.TEMPLATE, "", rest, whole.exact and all(item.exact for item in found))
            )
        return found

    def _item(
        self,
        kind: ContextKind,
        about: str,
        text: str,
        number: int | None = None,
        age: int | None = None,
        *,
        pinned: bool = False,
    ) -> ContextRow:
        counted = self.models.count_text(text)
        beginning = " ".join(about[: 4 * ABOUT_LENGTH].split())[:ABOUT_LENGTH]
        return ContextRow(kind, beginning, counted.value, counted.exact, number, age, pinned)

    def _with_offers(self, text: str, attached: Sequence[OutputOffer] = ()) -> str:
        parts = [offer.text for offer in (*self.offers, *attached)]
        return "\n\n".join([*parts, text] if text else parts)


def _about(message: Message) -> str:
    calls = ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    return " ".join(part for part in (message.text, calls) if part)
