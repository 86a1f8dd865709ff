"""One question and its answer, for ``tokenbox ask``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lines import ends_tokens
from tokenbox.errors import plural
from tokenbox.ledger import Call, Category, Outcome
from tokenbox.shell import calls
from tokenbox.shell.errors import BadArguments
from tokenbox.shell.outputs import clean
from tokenbox.shell.room import refusal
from tokenbox.shell.turn import prepare

if TYPE_CHECKING:
    from tokenbox.providers.counting import TokenCount
    from tokenbox.providers.events import ChatAnswer
    from tokenbox.shell.session import Session


@dataclass(frozen=True, slots=True)
class ShellAnswer:
    """The result of a question. ``sent``: the prompt's count. ``given``, ``kept``: tokens of the input."""

    model: str
    answer: ChatAnswer
    sent: TokenCount
    budget: int
    call: Call
    given: int | None
    kept: int | None

    @property
    def stopped(self) -> bool:
        return self.call.outcome is Outcome.STOPPED

    def to_dict(self) -> dict[str, object]:
        finish = self.answer.finish
        return {
            "model": self.model,
            "answer": self.answer.text,
            "finish": None if finish is None else finish.value,
            "stopped": self.stopped,
            "prompt": {"tokens": self.sent.value, "exact": self.sent.exact, "token_budget": self.budget},
            "input": None if self.given is None else {"tokens": self.given, "kept": self.kept},
            "usage": self.call.usage.to_dict(),
            "cost": self.call.cost.to_dict(),
        }


def ask(session: Session, question: str, given: bytes = b"") -> ShellAnswer:
    """Ask once, with as much of ``given`` before the question as the budget allows.

    Raises ``ContextCriticalOverflow`` if the question alone does not fit, and what a call raises.
    """
    text = clean(given)
    if text is None:
        raise BadArguments("standard input is not text, so no model can read it.")
    prepare(session)
    hidden = session.models.keys.hidden_in
    size, kept = _add_question(session, hidden(text).strip("\n"), hidden(question))
    calls.check_cap(session, Category.MAIN)
    sent = session.context.total()
    ended = calls.call(session, Category.MAIN)
    calls.report_end(session, ended)
    if ended.error is not None:
        raise ended.error
    call = session.record.last_call
    assert call is not None  # noqa: S101  # calls.call records every call
    return ShellAnswer(session.models.name, ended.answer, sent, session.context.budget, call, size, kept)


def _add_question(session: Session, text: str, question: str) -> tuple[int | None, int | None]:
    """Add the message, and return the tokens of the text before and after cutting; None without a text."""
    context, tokenizer = session.context, session.tokenizer
    number = context.conversation.user(question)
    if (alone := refusal(session)) is not None:
        raise alone.error
    if not text:
        return None, None
    frame, size = context.total().value, tokenizer.count(text)
    room = min(size, context.budget - frame)
    while kept := ends_tokens(text, max(0, room), tokenizer):
        context.conversation.drop(number)
        number = context.conversation.user(f"{kept}\n\n{question}")
        refused = refusal(session)
        if refused is None:
            break
        # The model may count other tokens than the local tokenizer that cuts: scale by what it counted.
        allowed = refused.needed - refused.over - frame
        room = min(room - 1, room * allowed // max(1, refused.needed - frame))
    else:
        context.conversation.drop(number)
        context.conversation.user(question)
    if kept == text:
        return size, size
    left, about = tokenizer.count(kept), "" if tokenizer.identity.exact else "~"
    session.screen.notice(
        f"[{about}{left:,} of {about}{plural(size, 'token')} of the input are sent, the middle is left out: "
        f"the budget is {plural(session.context.budget, 'token')}; --budget changes it]"
    )
    return size, left
