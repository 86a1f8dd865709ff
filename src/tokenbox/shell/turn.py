"""A turn of the conversation: sends a question, evicts, checks caps, shows the answer and runs its tools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tokenbox.caching import low_water
from tokenbox.conversation.counted_window import HANDLE
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

# The limit of tool rounds for one question; a model that reaches it is in a loop.
MAX_ROUNDS: Final = 25
SUMMARY_TOKENS: Final = 512
# Attempts at a busy server, and the longest wait between two of them in seconds.
MAX_ATTEMPTS: Final = 4
MAX_WAIT: Final = 60
BUSY: Final = (503, 529)
# Errors before any model has read the request, so that nothing is charged.
NOT_CHARGED: Final = (
    InvalidTarget,
    InvalidRequest,
    ServerUnreachable,
    AuthenticationFailed,
    RateLimited,
    RequestRejected,
)
SUMMARIZE: Final = (
    "Summarize the conversation below for the person who continues it: facts, decisions, open questions, "
    "names, figures. Write plain text, in at most 200 words."
)


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that has ended. ``error``: why it failed. An interrupt is not a failure."""

    answer: ChatAnswer
    outcome: Outcome
    error: TokenboxError | None = None


def say(session: Session, text: str, images: Sequence[Mapping[str, Any]] = ()) -> None:
    """Send ``text`` with the offered outputs, and add the answer to the context.

    If the request cannot be sent, or the answer is empty, the context stays as it was.
    """
    prepare(session)
    offers = list(session.context.offers)
    answer_to(session, session.context.ask(session.models.keys.hidden_in(text), images), offers)


def say_again(session: Session, numbers: Sequence[int]) -> None:
    """Replace the last exchange by asking its question again. If that fails, the exchange is restored."""
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
    """Check that the model can be asked, and set the budget that its window allows. Raises ``ShellError``."""
    if session.models.target.endpoint is None:
        raise NoModel.of(session.models.names)
    session.models.check_key()
    fit_window(session)


def answer_to(session: Session, question: int, offers: Sequence[OutputOffer]) -> None:
    """Send the request that ends with ``question``, and run tools until the model has answered."""
    context, session.answered = session.context, None
    try:
        make_room(session)
        check_cap(session, Category.MAIN)
        keep(session, [question])
    except BaseException:
        context.take_back(question, offers)
        raise
    category = Category.MAIN
    for _ in range(MAX_ROUNDS):
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
    session.screen.notice(f"[stopped: the model called tools {MAX_ROUNDS} times for one question]")


def warn_if_full(session: Session) -> None:
    """Warn once that the context is nearly full, and again only after there was room."""
    text = warning(session.context.about(session.answered), session.context.budget)
    if text is not None and not session.warned:
        session.screen.notice(f"[{text}]")
    session.warned = text is not None


def fit_window(session: Session) -> None:
    """Set the budget to the wanted one, or to what the model's window allows besides the answer."""
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
                f"instead of {session.wanted_budget:,}]"
            )


def keep(session: Session, numbers: Sequence[int]) -> None:
    """Write messages of the conversation to the record."""
    window = session.context.conversation.window
    session.record.append(
        {number: window[number].messages[0] for number in numbers}, session.models.count_here
    )


def make_room(session: Session) -> None:
    """Evict until the request fits and the guard allows it.

    Raises :class:`ContextCriticalOverflow` if what must be kept exceeds the budget, unless the user wants to
    send it once anyway. Nothing has been evicted then.
    """
    enforced = evict(session)
    conversation, budget = session.context.conversation, session.context.budget
    # The guard may need more than the total, such as the margin of an estimate: that must fit too.
    verdict = session.models.verdict(enforced.count, budget)
    if not verdict.ok and enforced.overflow is None:
        conversation.token_budget = max(0, enforced.total - verdict.over)
        enforced = evict(session)
        verdict = session.models.verdict(enforced.count, budget)
        conversation.token_budget = budget
    if enforced.overflow is not None or not verdict.ok:
        refuse_unless_wanted(session, enforced, verdict)


def refuse_unless_wanted(session: Session, enforced: Enforced, verdict: Verdict) -> None:
    """Raise the overflow, unless the user wants to send the request once anyway."""
    budget = session.context.budget
    over = max(enforced.total - budget, verdict.over)
    problem = (
        f"This request is {figure(session.context.total())} tokens, {over:,} over the budget of {budget:,}, "
        "and nothing more may be evicted. Use :drop or :budget."
    )
    if session.screen.approves(problem, "Send it once anyway?", always=False) is Approval.NO:
        if enforced.overflow is not None:
            raise enforced.overflow
        kept = [(item.name, item.tokens) for item in session.context.conversation.items()]
        raise overflow(verdict.limits.input_limit, verdict.tokens, kept, estimate=not enforced.exact)


def evict(session: Session) -> Enforced:
    """Evict until the request fits, and report what was shortened, evicted and summarized."""
    before = session.context.left_out()
    evicted = session.context.evict()
    enforced = evicted.enforced
    session.evictions += enforced.steps
    handles = [handle for handle in session.context.left_out() if handle not in before]
    report_shortened(session, enforced.steps, handles)
    if evicted.numbers:
        session.record.mark(evicted.numbers, "evicted")
        unit = "tool round"
        if evicted.turns:
            unit = "exchange" if evicted.turns == 1 else f"{evicted.turns} exchanges"
        messages = plural(len(evicted.numbers), "message")
        why = next(step.why for step in enforced.steps if step.action is WindowAction.EVICT)
        session.screen.notice(
            f"[evicted the oldest {unit} ({messages}): {why}; "
            f"now {figure(session.context.total())} of {session.context.budget:,} tokens]"
        )
    if enforced.summary is not None:
        session.record.summarize(evicted.numbers, enforced.summary)
        size = figure(session.models.count_text(enforced.summary))
        session.screen.notice(f"[the evicted messages are summarized in {size} tokens]")
    if enforced.failure is not None:
        session.screen.notice(f"[the evicted messages are not summarized: {enforced.failure}]")
    return enforced


def report_shortened(session: Session, steps: Sequence[WindowStep], handles: Sequence[str]) -> None:
    """Report how many results were shortened. ``handles``: of their full texts; a few are named."""
    changed = [(change, _messages(steps, action)) for action, change in _SHORTENED.items()]
    changed = [(change, numbers) for change, numbers in changed if numbers]
    is_clear = len(changed) == 1 and 0 < len(handles) <= _NAMED
    named = f" {' or '.join(handle[:HANDLE] for handle in handles)}" if is_clear else ""
    for change, numbers in changed:
        results = plural(len(numbers), "tool result")
        session.screen.notice(f"[{results} {change}; :expand{named} shows what was left out]")


def _messages(steps: Sequence[WindowStep], action: WindowAction) -> set[int]:
    return {number for step in steps if step.action is action for number in step.messages}


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
    """Raise ``CostCapError`` if the request could exceed the cap of the session or of the day."""
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
    """Return the largest answer in tokens, or None if the server decides."""
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
    """Ask the model, and retry while its server is busy. Ctrl-C stops; a partial answer is kept."""
    for attempt in range(1, MAX_ATTEMPTS):
        ended = call_once(session, category, messages, silent=silent)
        wait = seconds_to_wait(ended, attempt)
        if wait is None:
            return ended
        session.screen.notice(f"[the server is busy; retrying in {wait:,} s, Ctrl-C stops]")
        try:
            session.wait(wait)
        except KeyboardInterrupt:
            return ended
    return call_once(session, category, messages, silent=silent)


def seconds_to_wait(ended: Ended, attempt: int) -> int | None:
    """Return the seconds to wait before a retry, or None if the call must not be retried."""
    error = ended.error
    busy = isinstance(error, RateLimited) or (
        isinstance(error, ServerFailed) and error.details.get("status") in BUSY
    )
    if not busy or ended.answer.text or ended.answer.tool_calls:
        return None
    retry_after = error.retry_after if isinstance(error, RateLimited | ServerFailed) else None
    wait = 2**attempt if retry_after is None else retry_after
    return wait if wait <= MAX_WAIT else None


def call_once(
    session: Session,
    category: Category,
    messages: Sequence[Mapping[str, Any]] | None = None,
    *,
    silent: bool = False,
) -> Ended:
    """Ask the model once, and show its answer as it arrives.

    The call is written to the ledger before it is sent, so that a kill loses only its figures.
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
    # A summary is asked for once, so a write to the cache would not pay.
    stream = session.models.provider.stream(
        sent,
        tools,
        max_tokens=reserve(session, category),
        cache_marks=session.settings.cache_marks and messages is None,
    )
    outcome, error = Outcome.DONE, None
    shown = KeyFilter(session.models.keys, (lambda _: None) if silent else screen.answer)
    try:
        verb = "summarizes" if silent else "reads"
        screen.waiting(f"{session.models.label} {verb} {figure(counted)} tokens")
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
        for text in session.models.compare(counted, answer.usage.input_tokens):
            screen.notice(f"[{text}]")
    return Ended(answer, outcome, error)


class KeyFilter:
    """Shows a streamed text with keys hidden. A server may repeat its key, split over several pieces."""

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
    """Return the usage of a call and whether it is exact: the server's, else an estimate; 0 if refused."""
    if answer.usage is not None:
        return answer.usage, True
    if isinstance(error, NOT_CHARGED) and not isinstance(error, ConnectionLost):
        return Usage(0, 0), True
    if outcome is Outcome.FAILED and not answer.text:
        return UNKNOWN_USAGE, False
    return Usage(counted.value, session.models.count_text(answer.text + answer.reasoning).value), False


def report_end(session: Session, ended: Ended) -> None:
    """Report an answer that did not end normally."""
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


def answer_call(session: Session, called: ToolCall) -> dict[str, Any]:
    """Return the message with the result of a tool call. Every call gets one, even if it failed."""
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
    # The command must not see the shell's keys, and its cd and export must not affect the user's commands.
    place = replace(session.place, variables=session.models.keys.without(session.place.variables))
    ran = run(command, place, session.screen.command_output, session.screen.keyboard)
    return session.offered(ran).text


def _approved(session: Session, shown: str, what: str) -> bool:
    if what in session.approved:
        return True
    approval = session.screen.approves(f"The model wants to run: {shown}", "Run it?")
    if approval is Approval.ALWAYS:
        session.approved.add(what)
    return approval is not Approval.NO
