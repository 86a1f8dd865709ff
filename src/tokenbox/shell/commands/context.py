"""What is sent: looking at it, and changing it by hand."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from tokenbox.conversation import Evicted
from tokenbox.conversation.counted_window import HANDLE
from tokenbox.conversation.record import expanded
from tokenbox.shell import turn
from tokenbox.shell.attaching import attach
from tokenbox.shell.errors import BadArguments, NoSuchItem
from tokenbox.shell.picture import picture
from tokenbox.shell.screen import Approval, cost_text, figure, percent, plural

if TYPE_CHECKING:
    from tokenbox.ledger import Sum, Totals
    from tokenbox.shell.context import ContextRow
    from tokenbox.shell.session import Session

ABOUT_WIDTH = 60
NARROW = 80  # columns; with fewer, the table has fewer columns, too
NARROW_ABOUT = 24
KEPT_EXCHANGES = 1  # by :compact, beside what is pinned


def context(session: Session, arguments: str) -> None:
    """Every item of the next request; the sum is what it counts."""
    if arguments not in {"", "--json"}:
        raise BadArguments(":context takes nothing or --json.")
    items, total = session.context.items(), session.context.total(offered=True)
    budget = session.context.budget
    if arguments:
        record = {
            "model": session.models.name,
            "items": [item.to_dict() for item in items],
            "total": total.value,
            "exact": total.exact,
            "counted_by": total.source,
            "token_budget": budget,
        }
        session.screen.text(json.dumps(record, ensure_ascii=False, indent=2))
        return
    width = session.screen.width
    if session.screen.keyboard is not None:
        session.screen.lines(picture(items, total, budget, width))
    if width < NARROW:
        rows = [_narrow(item) for item in items]
        session.screen.table(
            ("#", "what", "tokens", "begins"), [*rows, ("", "total", figure(total), f"of {budget:,}")]
        )
        return
    session.screen.table(
        ("#", "what", "tokens", "share", "age", "pinned", "begins"),
        [_row(item, total.value) for item in items]
        + [("", "total", figure(total), percent(total.value, budget), "", "", f"of {budget:,} tokens")],
    )


def _narrow(item: ContextRow) -> tuple[str, ...]:
    """Fewer columns; what is pinned has a ``*``."""
    number = "" if item.number is None else f"{item.number}{'*' if item.pinned else ''}"
    about = item.about if len(item.about) <= NARROW_ABOUT else f"{item.about[: NARROW_ABOUT - 3]}..."
    return number, item.kind.value, f"{'' if item.exact else '~'}{item.tokens:,}", about


def file(session: Session, arguments: str) -> None:
    """Put a file or folder on offer for the next question, as far as a query needs it."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    if not words:
        raise BadArguments(":file takes a path, and what you look for in it: :file src how it is tested")
    attached = attach(session, words[:1], " ".join(words[1:]) or None)
    if attached.images:
        raise BadArguments(
            f"{words[0]} is an image: say @{words[0]} in your question, so that it is sent with it."
        )
    for made in attached.offers:
        session.context.offers.append(made)
        session.screen.notice(f"[{made.command}: {session.told(made)}; :drop last undoes it]")


def _row(item: ContextRow, total: int) -> tuple[str, ...]:
    return (
        "" if item.number is None else str(item.number),
        item.kind.value,
        f"{'' if item.exact else '~'}{item.tokens:,}",
        percent(item.tokens, total) if item.tokens >= 0 else "-",
        "" if item.age is None else str(item.age),
        "pinned" if item.pinned else "",
        item.about if len(item.about) <= ABOUT_WIDTH else f"{item.about[: ABOUT_WIDTH - 3]}...",
    )


def tokens(session: Session, arguments: str) -> None:
    if not arguments:
        raise BadArguments(":tokens takes the text to count, as in :tokens hello world")
    counted = session.models.count_text(arguments)
    session.screen.text(f"{figure(counted)} ({counted.source})")


def budget(session: Session, arguments: str) -> None:
    """Show the budget, or set it for this session."""
    conversation = session.context.conversation
    if arguments:
        said = arguments.replace(",", "").replace("_", "")
        if not said.isascii() or not said.isdigit() or len(said) > 12:  # noqa: PLR2004  # as MAX_TOKENS of settings
            raise BadArguments(":budget takes a whole number of tokens, as in :budget 8000")
        session.set_budget(int(said))
        session.record.settings_changed()
    total = session.context.total(offered=True)
    session.screen.text(
        f"{figure(total)} of {session.context.budget:,} tokens "
        f"({percent(total.value, session.context.budget)}); at most {conversation.max_turns:,} exchanges"
    )


def pin(session: Session, arguments: str) -> None:
    """Keep an exchange from leaving; said again, let it go."""
    number = _number(arguments, ":pin")
    conversation = session.context.conversation
    numbers = session.context.exchange(number)
    pinned = not any(item.pinned for item in conversation.items() if item.number == number)
    for one in numbers:
        (conversation.pin if pinned else conversation.unpin)(one)
    session.record.pin(numbers, pinned=pinned)
    what = plural(len(numbers), "message")
    session.screen.notice(f"[pinned {what}: they stay]" if pinned else f"[unpinned {what}]")


def drop(session: Session, arguments: str) -> None:
    """Take an exchange, or the last output on offer, out of the context."""
    before = session.context.total(offered=True)
    if arguments == "last":
        if not session.context.offers:
            raise NoSuchItem("no output is on offer.")
        what = f"the output of {session.context.offers.pop().command}"
    else:
        numbers = session.context.exchange(_number(arguments, ":drop"))
        session.context.drop(numbers)
        session.record.mark(numbers, "dropped")
        what = plural(len(numbers), "message")
    after = session.context.total(offered=True)
    session.screen.notice(f"[dropped {what}: {figure(before)} -> {figure(after)} tokens]")


def reset(session: Session, arguments: str) -> None:
    """Forget what was said. What was is kept in its session; what comes is a new one."""
    if arguments:
        raise BadArguments(":reset takes nothing.")
    session.context.conversation.reset()
    session.context.offers = []
    session.record.leave()
    session.screen.notice("[the conversation starts over; notes, project and settings stay]")


def expand(session: Session, arguments: str) -> None:
    """List the tool results that are shown shorter, or show one in full."""
    left_out = session.context.left_out()
    if not arguments:
        if not left_out:
            session.screen.text("nothing is left out")
            return
        rows = [
            (handle[:HANDLE], figure(session.models.count_text(text)), " ".join(text.split())[:ABOUT_WIDTH])
            for handle, text in left_out.items()
        ]
        session.screen.table(("handle", "tokens", "begins"), rows)
        return
    session.screen.text(expanded({**session.record.results(), **left_out}, arguments))


def compact(session: Session, arguments: str) -> None:
    """Have the model sum up what was said, show it, and put it in the place of all but the last exchange."""
    words = arguments.split()
    yes = "--yes" in words
    focus = " ".join(word for word in words if word != "--yes")
    conversation = session.context.conversation
    pinned = {item.number for item in conversation.items() if item.pinned}
    window = conversation.window
    last = session.context.exchange(list(window)[-1]) if window else []
    gone = [number for number in window if number not in last and number not in pinned]
    if not gone:
        session.screen.notice("[nothing to compact: only the last exchange and what is pinned is there]")
        return
    said = Evicted(tuple(window[number] for number in gone), conversation.summary)
    summary = turn.summary_of(session, said, focus)
    session.screen.text(summary)
    before, kept = session.context.total(offered=True), conversation.summary
    conversation.summary = summary
    after = session.context.without(gone)
    conversation.summary = kept
    change = f"{figure(before)} -> {figure(after)} tokens"
    asked = f"With this in the place of {plural(len(gone), 'message')}: {change}."
    if not yes and session.screen.approves(asked, "Put it there?", always=False) is Approval.NO:
        session.screen.notice("[not compacted; :compact --yes does it without asking]")
        return
    conversation.summary = summary
    session.context.drop(gone)
    session.record.summarize(gone, summary)
    session.screen.notice(f"[compacted: {change}]")


def _number(arguments: str, command: str) -> int:
    if not arguments.isascii() or not arguments.isdigit() or len(arguments) > 9:  # noqa: PLR2004
        raise BadArguments(f"{command} takes the number of an item; :context shows them.")
    return int(arguments)


def cost(session: Session, arguments: str) -> None:
    """The session's total; ``detail``: rows per model and category, then the context as it is.

    The rows are sums over all calls; the last line is what the next call sends: two different things.
    """
    if arguments not in {"", "detail"}:
        raise BadArguments(":cost takes nothing or detail.")
    total, ledger = session.record.spent(), session.record.ledger
    if not arguments:
        cap = session.settings.cap
        of_cap = "" if cap is None else f" of ${cap:f}"
        session.screen.text(
            f"{cost_text(total)}{of_cap} for {plural(total.calls, 'call')}: "
            f"{_sum(total.input)} tokens in, {_sum(total.output)} out"
        )
        return
    rows = [(model, category, *_figures(totals)) for (model, category), totals in ledger.rows().items()]
    if rows:
        session.screen.table(("model", "category", "calls", "input", "cached", "output", "cost"), rows)
    else:
        session.screen.text("no calls so far")
    context, budget = session.context.total(offered=True), session.context.budget
    about = "" if context.exact else "~"
    session.screen.text(
        f"[estimated session ctx: {about}{context.value} tokens; token_budget={budget} "
        f"({percent(context.value, budget)} used)]"
    )


def _figures(totals: Totals) -> tuple[str, ...]:
    return (
        f"{totals.calls:,}",
        _sum(totals.input),
        _sum(totals.cached),
        _sum(totals.output),
        cost_text(totals),
    )


def _sum(tokens: Sum[int]) -> str:
    """``412``, ``~412`` with an estimate in it, ``412 + ?`` with an unknown, ``?`` of nothing known."""
    if tokens.unknown and not tokens.known:
        return "?"
    return f"{'~' if tokens.estimated else ''}{tokens.known:,}{' + ?' if tokens.unknown else ''}"
