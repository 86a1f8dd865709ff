"""One call of the model: within the caps, recorded, shown as it arrives, retried while the server is busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tokenbox.errors import TokenboxError, plural
from tokenbox.ledger import (
    UNKNOWN_USAGE,
    Call,
    Category,
    CostCapExceeded,
    Outcome,
    Prediction,
    Usage,
    cap_at_dollars,
)
from tokenbox.ledger.cost import ZERO
from tokenbox.providers import errors
from tokenbox.providers.events import ChatAnswer, FinishReason, ReasoningDelta, TextDelta
from tokenbox.shell.errors import SessionFailed
from tokenbox.shell.evidence import of_call
from tokenbox.shell.keys import KeyFilter
from tokenbox.shell.models import bounded_count
from tokenbox.shell.running import uninterrupted
from tokenbox.shell.screen import in_tokens

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.catalog import Price
    from tokenbox.ledger import Totals
    from tokenbox.providers.counting import TokenCount
    from tokenbox.providers.events import Event
    from tokenbox.shell.keys import ModelKeys
    from tokenbox.shell.session import Session

SUMMARY_TOKENS: Final = 512
# Attempts at a busy server, and the longest wait between two of them in seconds.
MAX_ATTEMPTS: Final = 4
MAX_WAIT: Final = 60
BUSY: Final = (503, 529)
# Errors before any model has read the request, so that nothing is charged.
NOT_CHARGED: Final = (
    errors.InvalidTarget,
    errors.InvalidRequest,
    errors.ServerUnreachable,
    errors.AuthenticationFailed,
    errors.RateLimited,
    errors.RequestRejected,
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that has ended. ``error``: why it failed. An interrupt is not a failure."""

    answer: ChatAnswer
    outcome: Outcome
    error: TokenboxError | None = None


def check_cap(
    session: Session, category: Category, messages: Sequence[Mapping[str, Any]] | None = None
) -> None:
    """Raise ``CostCapError`` if the request could exceed the cap of the session or of the day."""
    if caps := caps_of(session):
        predicted = prediction(session, category, messages, count(session, messages), price_now(session))
        model = session.models.target.model
        for cap, spent in caps:
            cap_at_dollars(cap, spent(), model, predicted, unpriced=session.settings.unpriced)


def caps_of(session: Session) -> list[tuple[Decimal, Callable[[], Totals]]]:
    """Return the caps that are set, each with the function that reads what is spent of it."""
    settings, record = session.settings, session.record
    caps = ((settings.cap, record.spent), (settings.day_cap, record.spent_today))
    return [(cap, spent) for cap, spent in caps if cap is not None]


def exceeded_meanwhile(session: Session, started: Call) -> TokenboxError | None:
    """Return the error if a cap may not hold for this call, once recorded, and those of other shells.

    Two shells that check at the same time both see room; the later one to record its call sees both.
    """
    call, exact = started.predicted.at_most, started.predicted.exact
    if call is None:
        return None
    for cap, spent in caps_of(session):
        try:
            totals = spent()
        except SessionFailed as unknown:
            return unknown
        if totals.cost.known + totals.held > cap:
            others = max(totals.held - call, ZERO)
            return CostCapExceeded(cap=cap, spent=totals.cost.known, held=others, call=call, exact=exact)
    return None


def count(session: Session, messages: Sequence[Mapping[str, Any]] | None) -> TokenCount:
    if messages is None:
        return session.context.total()
    return session.models.count_request(messages, ())


def price_now(session: Session) -> Price | None:
    return session.models.price(session.record.now().date())


def reserve(session: Session, category: Category) -> int | None:
    """Return the largest answer in tokens, or None if the server decides."""
    return SUMMARY_TOKENS if category is Category.SUMMARIZE else session.models.output_reserve


def prediction(
    session: Session,
    category: Category,
    messages: Sequence[Mapping[str, Any]] | None,
    counted: TokenCount,
    price: Price | None,
) -> Prediction:
    at_most = None
    if price is not None and price.tiers and not counted.exact:
        at_most = bounded_count(counted, *sent_with(session, messages)).at_most
    reserved = reserve(session, category)
    return Prediction.of(counted.value, reserved, price, exact=counted.exact, input_at_most=at_most)


def sent_with(
    session: Session, messages: Sequence[Mapping[str, Any]] | None
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return the messages and tools to send: ``messages`` alone, else the context's."""
    context = session.context
    return (context.messages(), context.tools()) if messages is None else (messages, ())


def call(session: Session, category: Category, messages: Sequence[Mapping[str, Any]] | None = None) -> Ended:
    """Send the context and show the answer, or send ``messages`` and do not. Retry while the server is busy.

    Ctrl-C stops; a partial answer is kept.
    """
    attempt = 0
    while True:
        attempt += 1
        ended = call_once(session, category, messages)
        wait = seconds_to_wait(ended, attempt)
        if wait is None or attempt == MAX_ATTEMPTS:
            break
        if wait > MAX_WAIT:
            session.screen.notice(f"[the server asks to wait {in_words(wait)}; ask again then]")
            break
        session.screen.notice(f"[the server is busy; retrying in {wait:,} s, Ctrl-C stops]")
        try:
            session.wait(wait)
        except KeyboardInterrupt:
            break
    if messages is None:
        session.evictions = []  # not before a retry, whose evidence has them too
    return ended


def seconds_to_wait(ended: Ended, attempt: int) -> int | None:
    """Return the seconds to wait before a retry, None if the call must not be retried."""
    error = ended.error
    busy = isinstance(error, errors.RateLimited) or (
        isinstance(error, errors.ServerFailed) and error.details.get("status") in BUSY
    )
    if not busy or ended.answer.text or ended.answer.tool_calls:
        return None
    retry_after = error.retry_after if isinstance(error, errors.RateLimited | errors.ServerFailed) else None
    return 2**attempt if retry_after is None else retry_after


def in_words(seconds: int) -> str:
    """Return a duration as a person would say it: 90 s, 5 minutes, 2 hours."""
    minutes = -(-seconds // 60)
    if minutes <= 2:
        return f"{seconds:,} s"
    return f"{minutes} minutes" if minutes < 120 else plural(-(-minutes // 60), "hour")


def call_once(session: Session, category: Category, messages: Sequence[Mapping[str, Any]] | None) -> Ended:
    """Ask the model once, as :func:`call` does.

    The call is written to the ledger before it is sent, so that a kill loses only its figures.
    """
    record = session.record
    counted = count(session, messages)
    price = price_now(session)
    started = Call(
        session.new_id(),
        record.now(),
        session.models.target.model,
        category,
        project=record.project,
        session=record.session_id,
        predicted=prediction(session, category, messages, counted, price),
    )
    record.call(started)
    if (exceeded := exceeded_meanwhile(session, started)) is not None:
        record.call(started.end(record.now(), Usage(0, 0), price, exact=True, outcome=Outcome.FAILED))
        return Ended(ChatAnswer(), Outcome.FAILED, exceeded)
    sent, tools = sent_with(session, messages)
    if messages is None:
        session.last_call = of_call(session, sent, tools, counted)
    # A summary is asked for once, so a write to the cache would not pay.
    stream = session.models.provider.stream(
        sent,
        tools,
        max_tokens=reserve(session, category),
        cache_marks=session.settings.cache_marks and messages is None,
    )
    outcome, error = Outcome.STOPPED, None
    try:
        with suppress(KeyboardInterrupt):
            show(session, stream, counted, is_seen=messages is None)
            outcome = Outcome.DONE
    except TokenboxError as failed:  # of the server, or of a screen that is gone
        outcome, error = Outcome.FAILED, failed
    finally:
        with uninterrupted():
            stream.close()
            answer = _without_keys(stream.answer, session.models.keys)
            usage, exact = used(session, answer, counted, outcome, error)
            record.call(started.end(record.now(), usage, price, exact=exact, outcome=outcome))
    if isinstance(error, errors.ServerUnreachable | errors.ContextExceeded):
        session.models.probe_again()  # after a restart, the server may have another model or window
    if outcome is Outcome.DONE and answer.usage is not None:
        for text in session.models.compare(counted, answer.usage.input_tokens):
            session.screen.notice(f"[{text}]")
    return Ended(answer, outcome, error)


def show(session: Session, events: Iterable[Event], counted: TokenCount, *, is_seen: bool) -> None:
    """Show an answer as it arrives, with keys hidden; of a summary only that the model is at it."""
    screen, keys = session.screen, session.models.keys
    shown, thought = KeyFilter(keys, screen.answer), KeyFilter(keys, screen.reasoning)
    try:
        verb = "reads" if is_seen else "summarizes"
        screen.waiting(f"{session.models.label} {verb} {in_tokens(counted)}")
        for event in events:
            if isinstance(event, TextDelta) and is_seen:
                thought.end()
                shown.show(event.text)
            elif isinstance(event, ReasoningDelta) and is_seen:
                thought.show(event.text)
    finally:
        thought.end()
        shown.end()
        screen.answer_ends()


def _without_keys(answer: ChatAnswer, keys: ModelKeys) -> ChatAnswer:
    calls = tuple(call._replace(arguments=keys.hidden_in(call.arguments)) for call in answer.tool_calls)
    return replace(
        answer,
        text=keys.hidden_in(answer.text),
        reasoning=keys.hidden_in(answer.reasoning),
        tool_calls=calls,
    )


def used(
    session: Session, answer: ChatAnswer, counted: TokenCount, outcome: Outcome, error: TokenboxError | None
) -> tuple[Usage, bool]:
    """Return the usage of a call and whether it is exact: the server's, else an estimate; 0 if refused."""
    if answer.usage is not None:
        return answer.usage, True
    if isinstance(error, NOT_CHARGED) and not isinstance(error, errors.ConnectionLost):
        return Usage(0, 0), True
    if outcome is Outcome.FAILED and not answer.text:
        return UNKNOWN_USAGE, False
    return Usage(counted.value, session.models.count_text(answer.text + answer.reasoning).value), False


def report_end(session: Session, ended: Ended) -> None:
    answer = ended.answer
    if ended.outcome is Outcome.STOPPED:
        kept = "the partial answer is kept" if answer.text else "there was no answer yet"
        session.screen.notice(f"[stopped; {kept}]")
    elif ended.outcome is Outcome.FAILED and answer.text:
        session.screen.notice("[the answer broke off; the partial answer is kept]")
    elif answer.finish is FinishReason.LENGTH:
        session.screen.notice("[the answer reached its maximum length; say 'go on' for more]")
    elif answer.finish is FinishReason.CONTENT_FILTER:
        session.screen.notice("[the server's content filter ended the answer]")
    elif ended.outcome is Outcome.DONE and not answer.text and not answer.tool_calls:
        session.screen.notice("[the answer is empty]")
