"""What is said to the model and everything that follows: eviction, the cap, the answer, its tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tokenbox.caching import low_water
from tokenbox.conversation.limits import overflow
from tokenbox.conversation.low_water import AUTO
from tokenbox.engine.window import WindowAction
from tokenbox.errors import TokenboxError
from tokenbox.ledger import UNKNOWN_USAGE, Call, Category, Outcome, Prediction, Usage, cap_at_dollars
from tokenbox.providers.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidRequest,
    InvalidTarget,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
    ServerUnreachable,
)
from tokenbox.providers.events import FinishReason, ReasoningDelta, TextDelta
from tokenbox.shell import proposals
from tokenbox.shell.errors import NoModel, NoSummary
from tokenbox.shell.evidence import of_call
from tokenbox.shell.picture import warning
from tokenbox.shell.running import run
from tokenbox.shell.screen import Approval, figure, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tokenbox.catalog import Price
    from tokenbox.content.message import ToolCall
    from tokenbox.conversation import Enforced, Evicted
    from tokenbox.engine.window import WindowStep
    from tokenbox.policy import Verdict
    from tokenbox.providers.counting import TokenCount
    from tokenbox.providers.events import ChatAnswer
    from tokenbox.shell.models import ModelKeys
    from tokenbox.shell.offers import OutputOffer
    from tokenbox.shell.session import Session

# A model that calls tools this often for one question goes in circles.
MOST_ROUNDS: Final = 25
SUMMARY_TOKENS: Final = 512
# How often a busy server is asked, and the longest that is waited for it unasked, in seconds.
TRIES: Final = 4
LONGEST_WAIT: Final = 60
BUSY: Final = (503, 529)
# No model has read a word of what ended so, and nobody is charged for it.
NOT_ANSWERED: Final = (
    *(InvalidTarget, InvalidRequest, ServerUnreachable),
    *(AuthenticationFailed, RateLimited, RequestRejected),
)
SUMMARIZE: Final = (
    "Summarize the conversation below for the one who goes on with it: facts, decisions, open questions, "
    "names, figures. Write plain text, in at most 200 words."
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that is over, one way or another. ``error`` is why it failed; an interrupt is not a failure."""

    answer: ChatAnswer
    outcome: Outcome
    error: TokenboxError | None = None


def say(session: Session, text: str, images: Sequence[Mapping[str, Any]] = ()) -> None:
    """Say ``text``, with the outputs on offer, and take in the answer.

    What cannot be sent, or gets no word of an answer, leaves the context as it was before.
    """
    prepare(session)
    offers = list(session.context.offers)
    answer_to(session, session.context.ask(session.models.keys.hidden_in(text), images), offers)


def say_again(session: Session, numbers: Sequence[int]) -> None:
    """Ask the question of the last exchange once more, in its place. If that fails, the exchange is back."""
    prepare(session)
    conversation, positions = session.context.conversation, session.record.positions
    before = [conversation.window[number].messages[0] for number in numbers]
    places = [positions.get(number) for number in numbers]
    session.context.drop(numbers)
    question = conversation.add(before[0])
    try:
        answer_to(session, question, list(session.context.offers))
    except BaseException:
        if question not in conversation.window:
            for message, place in zip(before, places, strict=True):
                number = conversation.add(message)
                if place is not None:
                    positions[number] = place
        raise
    session.record.mark(numbers, "dropped")


def prepare(session: Session) -> None:
    """Raises where nobody can be asked; lets the budget be what the model's window has room for."""
    if session.models.target.endpoint is None:
        raise NoModel.of(session.models.names)
    session.models.check_key()
    fit_window(session)


def answer_to(session: Session, question: int, offers: Sequence[OutputOffer]) -> None:
    """Send the request that ends with ``question``, and go on until the model has answered."""
    context, session.answered = session.context, None
    try:
        make_room(session)
        check_cap(session, Category.MAIN)
        keep(session, [question])
    except BaseException:
        context.take_back(question, offers)
        raise
    category = Category.MAIN
    for _ in range(MOST_ROUNDS):
        ended = call(session, category)
        answer, done = ended.answer, ended.outcome is Outcome.DONE
        calls = answer.tool_calls if done else ()
        if answer.text or calls:
            message = answer.message if done else {"role": "assistant", "content": answer.text}
            keep(session, [context.conversation.add(message)])
        elif category is Category.MAIN:
            context.take_back(question, offers)
            session.record.mark([question], "dropped")
        report_end(session, ended)
        if ended.error is not None:
            raise ended.error
        if not calls:
            session.answered = session.record.last_call
            warn_if_full(session)
            return
        keep(session, [context.conversation.add(answer_call(session, one)) for one in calls])
        category = Category.TOOL
        make_room(session)
        check_cap(session, category)
    session.screen.notice(f"[stopped: the model called tools {MOST_ROUNDS} times for one question]")


def warn_if_full(session: Session) -> None:
    """Say once, until there is room again, that the context is nearly full."""
    said = warning(session.context.about(session.answered), session.context.budget)
    if said is not None and not session.warned:
        session.screen.notice(f"[{said}]")
    session.warned = said is not None


def fit_window(session: Session) -> None:
    """Let the budget be what is wanted, or what the model's window has room for beside the answer."""
    conversation, limits = session.context.conversation, session.models.limits()
    if session.settings.low_water == AUTO:
        conversation.low_water = low_water(price_now(session))
    budget = session.wanted_budget
    if limits is not None:
        room = limits.input_limit
        budget = min(budget, room if room > 0 else limits.max_ctx)
    if conversation.token_budget != budget:
        conversation.token_budget = budget
        if limits is not None and budget < session.wanted_budget:
            session.screen.notice(
                f"[the window of {session.models.label} is {limits.max_ctx:,} tokens, "
                f"{limits.reserve_out:,} of them reserved for the answer, so the budget is {budget:,} "
                f"and not {session.wanted_budget:,}]"
            )


def keep(session: Session, numbers: Sequence[int]) -> None:
    """Write messages of the conversation to the record."""
    window = session.context.conversation.window
    session.record.append(
        {number: window[number].messages[0] for number in numbers}, session.models.count_here
    )


def make_room(session: Session) -> None:
    """Make the request fit, and ask the policy's guard.

    Raises :class:`ContextCriticalOverflow` where what must stay is over the budget, unless the person wants
    it sent once all the same. Nothing has left then.
    """
    enforced = evict(session)
    conversation, budget = session.context.conversation, session.context.budget
    # What the guard needs beside the total, such as the margin of an estimate, has to be free as well.
    verdict = session.models.verdict(enforced.count, budget)
    if not verdict.ok and enforced.overflow is None:
        conversation.token_budget = max(0, enforced.total - verdict.over)
        enforced = evict(session)
        verdict = session.models.verdict(enforced.count, budget)
        conversation.token_budget = budget
    if enforced.overflow is not None or not verdict.ok:
        refuse_unless_wanted(session, enforced, verdict)


def refuse_unless_wanted(session: Session, enforced: Enforced, verdict: Verdict) -> None:
    """Raise what is wrong, unless the person wants it sent once all the same."""
    budget = session.context.budget
    over = max(enforced.total - budget, verdict.over)
    said = (
        f"This request is {figure(session.context.total())} tokens, {over:,} over the budget of "
        f"{budget:,}, and what must stay does not fit. :drop and :budget change that."
    )
    if session.screen.approves(said, "Send it once all the same?", always=False) is Approval.NO:
        if enforced.overflow is not None:
            raise enforced.overflow
        kept = [(item.name, item.tokens) for item in session.context.conversation.items()]
        raise overflow(verdict.limits.input_limit, verdict.tokens, kept, estimate=not enforced.exact)


def evict(session: Session) -> Enforced:
    """Make the request smaller, report what that took, and have it summarized where that is set."""
    evicted = session.context.evict()
    enforced = evicted.enforced
    session.evictions += enforced.steps
    report_shortened(session, enforced.steps)
    if evicted.numbers:
        session.record.mark(evicted.numbers, "evicted")
        of_budget = f"{session.context.budget:,} tokens"
        left = "tool round"
        if evicted.turns:
            left = "exchange" if evicted.turns == 1 else f"{evicted.turns} exchanges"
        messages = plural(len(evicted.numbers), "message")
        why = next(step.why for step in enforced.steps if step.action is WindowAction.EVICT)
        session.screen.notice(
            f"[evicted the oldest {left} ({messages}): {why}; "
            f"now {figure(session.context.total())} of {of_budget}]"
        )
    if enforced.summary is not None:
        session.record.summarize(evicted.numbers, enforced.summary)
        session.screen.notice(
            f"[what left is summarized: {figure(session.models.count_text(enforced.summary))} tokens]"
        )
    if enforced.failure is not None:
        session.screen.notice(f"[what left is not summarized: {enforced.failure}]")
    return enforced


def report_shortened(session: Session, steps: Sequence[WindowStep]) -> None:
    """Say how many results are shown shorter from now on."""
    for action, said in (
        (WindowAction.MASK, "are one line now"),
        (WindowAction.CUT, "keep their head and tail"),
    ):
        numbers = {number for step in steps if step.action is action for number in step.messages}
        if numbers:
            results = plural(len(numbers), "tool result")
            session.screen.notice(f"[{results} {said}; :expand shows what was left out]")


def summarize_evicted(session: Session) -> Callable[[Evicted], str | None]:
    """What the conversation calls with what left. An interrupt here leaves it without a summary."""

    def summarize(evicted: Evicted) -> str | None:
        try:
            return summary_of(session, evicted)
        except KeyboardInterrupt:
            raise NoSummary("interrupted.") from None

    return summarize


def summary_of(session: Session, evicted: Evicted, focus: str = "") -> str:
    """What the model sums messages up to, with the summary there was before."""
    asked = SUMMARIZE + (f" Attend above all to: {focus}." if focus else "")
    said = (
        f"summary of what came before: {evicted.summary}\n{evicted.text}" if evicted.summary else evicted.text
    )
    messages = [{"role": "system", "content": asked}, {"role": "user", "content": said}]
    check_cap(session, Category.SUMMARIZE, messages)
    ended = call(session, Category.SUMMARIZE, messages, silent=True)
    if ended.error is not None:
        raise ended.error
    if ended.outcome is Outcome.STOPPED:
        raise KeyboardInterrupt
    if not ended.answer.text.strip():
        raise NoSummary("the model wrote nothing.")
    return ended.answer.text.strip()


def check_cap(
    session: Session, category: Category, messages: Sequence[Mapping[str, Any]] | None = None
) -> None:
    """Raises ``CostCapError`` before anything is sent that could cost more than a session or a day may."""
    caps = (
        (session.settings.cap, session.record.spent),
        (session.settings.day_cap, session.record.spent_today),
    )
    if any(cap is not None for cap, _ in caps):
        predicted = prediction(session, category, count(session, messages), price_now(session))
        for cap, spent in caps:
            if cap is not None:
                cap_at_dollars(cap, spent(), session.models.target.model, predicted)


def count(session: Session, messages: Sequence[Mapping[str, Any]] | None) -> TokenCount:
    if messages is None:
        return session.context.total()
    return session.models.count_request(messages, ())


def price_now(session: Session) -> Price | None:
    return session.models.price(session.record.now().date())


def reserve(session: Session, category: Category) -> int | None:
    """The most tokens of the answer, None if the server decides."""
    return SUMMARY_TOKENS if category is Category.SUMMARIZE else session.models.output_reserve


def prediction(session: Session, category: Category, counted: TokenCount, price: Price | None) -> Prediction:
    return Prediction.of(counted.value, reserve(session, category), price, exact=counted.exact)


def call(
    session: Session,
    category: Category,
    messages: Sequence[Mapping[str, Any]] | None = None,
    *,
    silent: bool = False,
) -> Ended:
    """Ask the model, again where its server is busy and asks to wait. Ctrl-C stops it; what came is kept."""
    for tried in range(1, TRIES):
        ended = call_once(session, category, messages, silent=silent)
        wait = seconds_to_wait(ended, tried)
        if wait is None:
            return ended
        session.screen.notice(f"[the server is busy; asking again in {wait:,} s, Ctrl-C stops]")
        try:
            session.wait(wait)
        except KeyboardInterrupt:
            return ended
    return call_once(session, category, messages, silent=silent)


def seconds_to_wait(ended: Ended, tried: int) -> int | None:
    """How long to wait before the same request may pass; None where it is not sent again by itself."""
    error = ended.error
    busy = isinstance(error, RateLimited) or (
        isinstance(error, ServerFailed) and error.details.get("status") in BUSY
    )
    if not busy or ended.answer.text or ended.answer.tool_calls:
        return None
    asked = error.retry_after if isinstance(error, RateLimited | ServerFailed) else None
    wait = 2**tried if asked is None else asked
    return wait if wait <= LONGEST_WAIT else None


def call_once(
    session: Session,
    category: Category,
    messages: Sequence[Mapping[str, Any]] | None = None,
    *,
    silent: bool = False,
) -> Ended:
    """Ask the model once and show its answer as it comes.

    The call is in the ledger before it is sent, so that a kill loses nothing but its own figures.
    """
    context, record, screen = session.context, session.record, session.screen
    counted = count(session, messages)
    price = price_now(session)
    started = Call(
        session.new_id(),
        record.now(),
        session.models.target.model,
        category,
        project=record.project,
        session=record.session_id,
        predicted=prediction(session, category, counted, price),
    )
    record.call(started)
    sent, tools = (context.messages(), context.tools()) if messages is None else (messages, ())
    if messages is None:
        session.last_call = of_call(session, sent, tools, counted)
        session.evictions = []
    stream = session.models.provider.stream(sent, tools, max_tokens=reserve(session, category))
    outcome, error = Outcome.DONE, None
    shown = Hidden(session.models.keys, (lambda _: None) if silent else screen.answer)
    try:
        screen.waiting(f"{session.models.label} {'sums up' if silent else 'reads'} {figure(counted)} tokens")
        for event in stream:
            if isinstance(event, TextDelta):
                shown.show(event.text)
            elif isinstance(event, ReasoningDelta) and not silent:
                screen.reasoning(session.models.keys.hidden_in(event.text))
    except KeyboardInterrupt:
        outcome = Outcome.STOPPED
    except ProviderError as failed:
        outcome, error = Outcome.FAILED, failed
    finally:
        stream.close()
        shown.end()
        screen.answer_ends()
        answer = replace(stream.answer, text=session.models.keys.hidden_in(stream.answer.text))
        usage, exact = used(session, answer, counted, outcome, error)
        record.call(started.end(record.now(), usage, price, exact=exact, outcome=outcome))
    if outcome is Outcome.DONE and answer.usage is not None:
        for said in session.models.compare(counted, answer.usage.input_tokens):
            screen.notice(f"[{said}]")
    return Ended(answer, outcome, error)


class Hidden:
    """Shows a text as it comes, without keys: a server may repeat the one it was given, in any pieces."""

    def __init__(self, keys: ModelKeys, show: Callable[[str], object]) -> None:
        self._keys, self._show = keys, show
        self._held = ""

    def show(self, piece: str) -> None:
        text = self._keys.hidden_in(self._held + piece)
        ready = len(text) - self._keys.unfinished(text)
        self._held = text[ready:]
        if ready:
            self._show(text[:ready])

    def end(self) -> None:
        if self._held:
            self._show(self._held)
            self._held = ""


def used(
    session: Session, answer: ChatAnswer, counted: TokenCount, outcome: Outcome, error: TokenboxError | None
) -> tuple[Usage, bool]:
    """What the call used: as the server said, else as counted here, an estimate; nothing if refused."""
    if answer.usage is not None:
        return answer.usage, True
    if isinstance(error, NOT_ANSWERED) and not isinstance(error, ConnectionLost):
        return Usage(0, 0), True
    if outcome is Outcome.FAILED and not answer.text:
        return UNKNOWN_USAGE, False
    return Usage(counted.value, session.models.count_text(answer.text + answer.reasoning).value), False


def report_end(session: Session, ended: Ended) -> None:
    """Say what a person would want to know of the end of an answer."""
    answer = ended.answer
    if ended.outcome is Outcome.STOPPED:
        kept = "what came is kept" if answer.text else "nothing had come, so nothing is kept"
        session.screen.notice(f"[stopped; {kept}]")
    elif ended.outcome is Outcome.FAILED and answer.text:
        session.screen.notice("[the answer broke off; what came is kept]")
    elif answer.finish is FinishReason.LENGTH:
        session.screen.notice("[the answer ends at its longest allowed length; say 'go on' for more]")
    elif answer.finish is FinishReason.CONTENT_FILTER:
        session.screen.notice("[the server's filter ended the answer]")
    elif ended.outcome is Outcome.DONE and not answer.text and not answer.tool_calls:
        session.screen.notice("[the model answered nothing]")


def answer_call(session: Session, called: ToolCall) -> dict[str, Any]:
    """The message with the result of a tool call: every call gets one, whatever became of it."""
    try:
        result = _result(session, called)
    except TokenboxError as error:
        session.screen.problem(error)
        result = f"error: {error.message}"
    except KeyboardInterrupt:
        session.screen.notice("[interrupted]")
        result = "The user interrupted this."
    hidden = session.models.keys.hidden_in(result)
    return {"role": "tool", "tool_call_id": called.id, "content": hidden}


def _result(session: Session, called: ToolCall) -> str:
    arguments = proposals.arguments_of(called.arguments)
    if arguments is None:
        return f"error: the arguments are not a JSON object: {called.arguments[:200]}"
    if called.name == proposals.NAME and session.proposals_on:
        command = arguments.get("command")
        if not isinstance(command, str) or not command.strip():
            return "error: the argument command is missing."
        return _proposed(session, command)
    if session.mcp.knows(called.name):
        if not _approved(session, f"{called.name}({called.arguments})", called.name):
            return "The user did not allow this."
        return session.cut(session.mcp.call(called.name, arguments))
    return f"error: there is no tool {called.name!r}."


def _proposed(session: Session, command: str) -> str:
    if not proposals.is_allowed(command, session.settings.allow) and not _approved(session, command, command):
        return "The user did not run this command."
    # The keys of this shell are none of the model's business, and its cd and export none of the person's.
    place = replace(session.place, variables=session.models.keys.without(session.place.variables))
    ran = run(command, place, session.screen.command_output, session.screen.keyboard)
    return session.offered(ran).text


def _approved(session: Session, shown: str, what: str) -> bool:
    if what in session.approved:
        return True
    said = session.screen.approves(f"The model wants to run: {shown}", "Run it?")
    if said is Approval.ALWAYS:
        session.approved.add(what)
    return said is not Approval.NO
