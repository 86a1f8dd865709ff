"""Makes a request fit: the budget that the window allows, evictions, and choices where they do not help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenbox.caching import low_water
from tokenbox.content.lenses.lines import ends_tokens
from tokenbox.content.message import Role
from tokenbox.conversation.limits import overflow
from tokenbox.conversation.low_water import AUTO
from tokenbox.conversation.result_forms import HANDLE
from tokenbox.engine.steps import WindowAction, WindowStep
from tokenbox.errors import plural
from tokenbox.ledger import Category, Outcome
from tokenbox.shell.calls import call, check_cap, price_now
from tokenbox.shell.errors import NoRoom, NoSummary
from tokenbox.shell.picture import warning
from tokenbox.shell.screen import in_tokens
from tokenbox.tokenizers.ownership import key_of_model

if TYPE_CHECKING:
    from tokenbox.conversation import Enforced, Evicted
    from tokenbox.errors import ContextCriticalOverflow
    from tokenbox.shell.session import Session

# What the user may choose if a request is over the budget.
CUT: Final = "c"
RAISE: Final = "r"
SEND: Final = "s"
SUMMARIZE: Final = (
    "Summarize the conversation below for the person who continues it: facts, decisions, open questions, "
    "names, figures. Write plain text, in at most 200 words."
)


def warn_if_full(session: Session) -> None:
    """Warn once that the context is nearly full, and again only after there was room."""
    text = warning(session.context.about(session.answered), session.context.budget)
    if text is not None and not session.warned:
        session.screen.notice(f"[{text}]")
    session.warned = text is not None


def fit_window(session: Session) -> None:
    """Set the budget to the wanted one, or to what the model's window allows besides the answer.

    Raises :class:`NoRoom` if it allows nothing.
    """
    conversation, limits = session.context.conversation, session.models.limits()
    if limits is not None and limits.input_limit <= 0:
        name = session.models.name
        key = key_of_model(name, "reserve_out") if name else "policy.reserve_out"
        raise NoRoom(
            f"the window of {session.models.label} is {plural(limits.max_ctx, 'token')}, and "
            f"{limits.reserve_out:,} are reserved for the answer, so that nothing can be sent. Reserve less: "
            f"tokenbox config set {key} {limits.max_ctx // 4}"
        )
    if session.settings.low_water == AUTO:
        conversation.low_water = low_water(price_now(session))
    budget = session.wanted_budget
    if limits is not None:
        budget = min(budget, limits.input_limit)
    if conversation.token_budget != budget:
        conversation.token_budget = budget
        if limits is not None and budget < session.wanted_budget:
            session.screen.notice(
                f"[the window of {session.models.label} is {plural(limits.max_ctx, 'token')}, "
                f"{limits.reserve_out:,} of them reserved for the answer, so the budget is {budget:,} "
                f"instead of {session.wanted_budget:,}]"
            )


def make_room(session: Session, question: int) -> int:
    """Evict until the request fits and the guard allows it. Return the number of the question.

    If what must be kept exceeds the budget, nothing is evicted, and the user chooses: cut the question (which
    gets a new number), raise the budget, or send the request once anyway. Raises
    :class:`ContextCriticalOverflow` if the user wants none of these, or if cutting is not enough.
    """
    context, tokenizer = session.context, session.tokenizer
    choice, whole, size, room = None, "", 0, 0
    while (refused := refusal(session)) is not None:
        if choice != CUT:
            choice = session.screen.choose(*refused.question(session, question))
        if choice == SEND:
            break
        if choice == RAISE and refused.raised is not None:
            session.set_budget(refused.raised)
            session.record.settings_changed()
        elif choice == CUT:
            if not whole:
                whole = context.window[question].text
                size = room = tokenizer.count(whole)
            room -= refused.over
            if room <= 0:
                raise refused.error
            question = context.ask_shorter(question, ends_tokens(whole, room, tokenizer))
        else:
            raise refused.error
    if whole:
        about = "" if tokenizer.identity.exact else "~"
        kept = tokenizer.count(context.window[question].text)
        session.screen.notice(f"[{about}{kept:,} of {about}{size:,} tokens of the question are sent]")
    return question


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that does not fit, by the tokens that must stay.

    ``raised``: a budget in which they fit; None if the model's window is smaller.
    """

    needed: int
    over: int
    raised: int | None
    error: ContextCriticalOverflow

    def question(self, session: Session, question: int) -> tuple[str, dict[str, str]]:
        choices = {}
        if question == next(reversed(session.context.conversation.window)):
            choices[CUT] = "cut the middle of your question until it fits"
        if self.raised is not None:
            choices[RAISE] = f"raise the budget of this session to {plural(self.raised, 'token')}"
        choices[SEND] = f"send all {in_tokens(session.context.total())} once"
        about = "~" if self.error.details["exact"] is False else ""
        problem = (
            f"What must be sent has {about}{self.needed:,} tokens, {about}{self.over:,} more than the budget "
            f"of {self.needed - self.over:,}. Evicting older messages is not enough."
        )
        return problem, choices


def refusal(session: Session) -> Refused | None:
    """Evict what may leave. Return why the request still cannot be sent; None if it can."""
    enforced = evict(session)
    error = enforced.overflow
    if error is not None:
        limits, raised = session.models.limits(), in_round_figures(error.fixed_load)
        if limits is not None:
            raised = min(raised, limits.input_limit)
        return Refused(error.fixed_load, error.deficit, raised if raised >= error.fixed_load else None, error)
    # The guard may need more than the total, such as the margin of an estimate: that must fit too.
    conversation, budget = session.context.conversation, session.context.budget
    verdict = session.models.verdict(enforced.count, budget)
    if not verdict.ok:
        conversation.token_budget = max(0, enforced.total - verdict.over)
        enforced = evict(session)
        conversation.token_budget = budget
        verdict = session.models.verdict(enforced.count, budget)
    if verdict.ok:
        return None
    kept = [(item.name, item.tokens) for item in conversation.items()]
    error = overflow(verdict.limits.input_limit, verdict.tokens, kept, estimate=not enforced.exact)
    return Refused(error.fixed_load, error.deficit, None, error)


def in_round_figures(tokens: int) -> int:
    """Round a number of tokens up to two digits: 1,415 to 1,500."""
    unit: int = 10 ** max(0, len(str(tokens)) - 2)
    return -(-tokens // unit) * unit


def evict(session: Session) -> Enforced:
    """Evict until the request fits, and report what was shortened, evicted and summarized."""
    conversation = session.context.conversation
    before = set(conversation.left_out)
    evicted, enforced = session.context.evict()
    session.evictions += enforced.steps
    handles = [handle for handle in conversation.left_out if handle not in before]
    report_shortened(session, enforced.steps, handles)
    if evicted:
        session.record.mark(evicted, "evicted")
        turns = sum(item.role is Role.USER for item in evicted.values())
        unit = "tool round" if not turns else "exchange" if turns == 1 else plural(turns, "exchange")
        messages = plural(len(evicted), "message")
        why = next(step.why for step in enforced.steps if step.action is WindowAction.EVICT)
        session.screen.notice(
            f"[evicted the oldest {unit} ({messages}): {why}; "
            f"now {session.context.total()} of {plural(session.context.budget, 'token')}]"
        )
    if enforced.summary is not None:
        session.record.summarize(evicted, enforced.summary)
        size = in_tokens(session.models.count_text(enforced.summary))
        session.screen.notice(f"[the evicted messages are summarized in {size}]")
    if enforced.failure is not None:
        session.screen.notice(f"[the evicted messages are not summarized: {enforced.failure}]")
    return enforced


def report_shortened(session: Session, steps: Sequence[WindowStep], handles: Sequence[str]) -> None:
    """Report how many results were shortened. ``handles``: of their full texts; a few are named."""
    changed: dict[str, set[int]] = {}
    for action, change in _SHORTENED.items():
        if numbers := {number for step in steps if step.action is action for number in step.messages}:
            changed[change] = numbers
    is_clear = len(changed) == 1 and 0 < len(handles) <= _NAMED
    named = f" {' or '.join(handle[:HANDLE] for handle in handles)}" if is_clear else ""
    for change, numbers in changed.items():
        results = plural(len(numbers), "tool result")
        session.screen.notice(f"[{results} {change}; :expand{named} shows what was left out]")


_SHORTENED: Final = {
    WindowAction.MASK: "reduced to one line",
    WindowAction.CUT: "cut to head and tail",
}
# A notice names at most this many handles.
_NAMED: Final = 3


def summarizer(session: Session) -> Callable[[Evicted], str | None]:
    """Return the function that summarizes evicted messages. After an interrupt there is no summary."""

    def summarize(evicted: Evicted) -> str | None:
        try:
            return summary_of(session, evicted)
        except KeyboardInterrupt:
            raise NoSummary("interrupted.") from None

    return summarize


def summary_of(session: Session, evicted: Evicted, focus: str = "") -> str:
    """Have the model summarize messages, together with the previous summary."""
    instruction = SUMMARIZE + (f" Focus on: {focus}." if focus else "")
    text = evicted.text
    if evicted.summary:
        text = f"summary of what came before: {evicted.summary}\n{text}"
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    check_cap(session, Category.SUMMARIZE, messages)
    ended = call(session, Category.SUMMARIZE, messages)
    if ended.error is not None:
        raise ended.error
    if ended.outcome is Outcome.STOPPED:
        raise KeyboardInterrupt
    if not ended.answer.text.strip():
        raise NoSummary("the model wrote nothing.")
    return ended.answer.text.strip()
