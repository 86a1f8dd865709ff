"""Commands on the context: list it, change it, count it, and show its cost."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from tokenbox.config.keys import MAX_TOKENS
from tokenbox.conversation import Evicted
from tokenbox.conversation.record import expanded
from tokenbox.conversation.result_forms import HANDLE
from tokenbox.errors import plural
from tokenbox.integers import digits, written_figure
from tokenbox.ledger.totals import HEADS, cells, cost_text, tokens_text
from tokenbox.render.lines import GAP, clip, column_widths, printable
from tokenbox.shell.attaching import attach
from tokenbox.shell.errors import BadArguments, NoSuchItem
from tokenbox.shell.picture import picture
from tokenbox.shell.room import summary_of
from tokenbox.shell.screen import Approval, in_tokens, percent

if TYPE_CHECKING:
    from tokenbox.shell.context import ContextRow
    from tokenbox.shell.session import Session

ABOUT_WIDTH = 60
NARROW = 80
"""On a terminal with fewer columns, the table has fewer columns too, and a ``*`` marks a pinned item."""
NARROW_ABOUT = 16


def context(session: Session, arguments: str) -> None:
    """List every item of the next request. The sizes add up to its count."""
    if arguments not in {"", "--json"}:
        raise BadArguments(":context takes no arguments, or --json.")
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
        session.screen.lines(picture(items, total, budget, width, session.screen.charset))
    heads = ["#", "what", "tokens", "share", "age", "pinned"]
    rows: list[tuple[str, ...]] = [_row(item, budget) for item in items]
    rows.append(("", "total", str(total), percent(total.value, budget), "", ""))
    if width < NARROW:
        heads = heads[:3]
        rows = [(row[0] + "*" * bool(row[5]), *row[1:3]) for row in rows]
    others = sum(column_widths([heads, *rows])) + len(heads) * len(GAP)
    room = max(NARROW_ABOUT, min(ABOUT_WIDTH, width - others))
    begins = [*(clip(printable(item.about), room) for item in items), f"of {plural(budget, 'token')}"]
    session.screen.table((*heads, "begins"), [(*row, text) for row, text in zip(rows, begins, strict=True)])


def _row(item: ContextRow, budget: int) -> tuple[str, ...]:
    return (
        "" if item.number is None else str(item.number),
        item.kind.value,
        f"{'' if item.exact else '~'}{item.tokens:,}",
        percent(item.tokens, budget) if item.tokens >= 0 else "-",
        "" if item.age is None else str(item.age),
        "pinned" if item.pinned else "",
    )


def file(session: Session, arguments: str) -> None:
    """Offer the parts of a file or folder that are relevant to a query for the next question."""
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    if not words:
        raise BadArguments(":file takes a path and perhaps a query, as in :file src how it is tested")
    attached = attach(session, words[:1], " ".join(words[1:]) or None)
    if attached.images:
        raise BadArguments(f"{words[0]} is an image. To send it, write @{words[0]} in your question.")
    for offer in attached.offers:
        session.context.offers.append(offer)
        session.screen.notice(f"[{offer.command}: {session.describe(offer)}; :drop last undoes it]")


def tokens(session: Session, arguments: str) -> None:
    if not arguments:
        raise BadArguments(":tokens takes the text to count, as in :tokens hello world")
    counted = session.models.count_text(arguments)
    session.screen.text(f"{counted} ({counted.source})")


def budget(session: Session, arguments: str) -> None:
    if arguments:
        tokens = written_figure(arguments)
        if tokens is None or tokens > MAX_TOKENS:
            raise BadArguments(":budget takes a whole number of tokens, as in :budget 8000")
        session.set_budget(tokens)
        session.record.settings_changed()
    total = session.context.total(offered=True)
    session.screen.text(
        f"{total} of {session.context.budget:,} tokens "
        f"({percent(total.value, session.context.budget)}); "
        f"at most {plural(session.settings.max_turns, 'exchange')}"
    )


def pin(session: Session, arguments: str) -> None:
    number = _number(arguments, ":pin")
    conversation = session.context.conversation
    numbers = session.context.exchange(number)
    pinned = not any(item.pinned for item in conversation.items() if item.number == number)
    for one in numbers:
        (conversation.pin if pinned else conversation.unpin)(one)
    session.record.pin(numbers, pinned=pinned)
    messages = plural(len(numbers), "message")
    session.screen.notice(f"[{'pinned' if pinned else 'unpinned'} {messages}]")


def drop(session: Session, arguments: str) -> None:
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
    session.screen.notice(f"[dropped {what}: {before} -> {in_tokens(after)}]")


def reset(session: Session, _: str) -> None:
    """Start a new conversation in a new session. The old session stays stored."""
    session.context.conversation.reset()
    session.context.offers = []
    session.record.leave()
    session.screen.notice("[the conversation starts over; notes, project and settings stay]")


def expand(session: Session, arguments: str) -> None:
    """List the shortened tool results and the messages that left, or show one in full."""
    shortened = session.context.conversation.left_out
    if not arguments:
        left_out = {**session.record.texts(evicted=True), **shortened}
        if not left_out:
            session.screen.text("nothing is left out")
            return
        rows = [
            (handle[:HANDLE], str(session.models.count_text(text)), " ".join(text.split())[:ABOUT_WIDTH])
            for handle, text in left_out.items()
        ]
        session.screen.table(("handle", "tokens", "begins"), rows)
        return
    session.screen.text(expanded({**session.record.texts(), **shortened}, arguments))


def compact(session: Session, arguments: str) -> None:
    """Show the model's summary of the conversation, and replace all but the last exchange by it."""
    words = arguments.split()
    yes = "--yes" in words
    focus = " ".join(word for word in words if word != "--yes")
    conversation = session.context.conversation
    pinned = {item.number for item in conversation.items() if item.pinned}
    window = conversation.window
    last = session.context.exchange(list(window)[-1]) if window else []
    replaced = [number for number in window if number not in last and number not in pinned]
    if not replaced:
        session.screen.notice("[nothing to compact besides the last exchange and pinned items]")
        return
    evicted = Evicted(tuple(window[number] for number in replaced), conversation.summary)
    summary = summary_of(session, evicted, focus)
    session.screen.text(summary)
    before, previous = session.context.total(offered=True), conversation.summary
    conversation.summary = summary
    after = session.context.without(replaced)
    conversation.summary = previous
    change = f"{before} -> {in_tokens(after)}"
    effect = f"This summary would replace {plural(len(replaced), 'message')}: {change}."
    if not yes and session.screen.approves(effect, "Replace them?", always=False) is Approval.NO:
        session.screen.notice("[not compacted; :compact --yes does it without asking]")
        return
    conversation.summary = summary
    session.context.drop(replaced)
    session.record.summarize(replaced, summary)
    session.screen.notice(f"[compacted: {change}]")


def _number(arguments: str, command: str) -> int:
    number = digits(arguments)
    if number is None:
        raise BadArguments(f"{command} takes the number of an item; :context shows them.")
    return number


def cost(session: Session, arguments: str) -> None:
    """Show the total of the session; ``detail`` adds a row for each model and category, and the context.

    The rows are sums over past calls; the last line is the size of the next call.
    """
    if arguments not in {"", "detail"}:
        raise BadArguments(":cost takes no arguments, or detail.")
    total, ledger = session.record.spent(), session.record.ledger
    if not arguments:
        cap = session.settings.cap
        of_cap = "" if cap is None else f" of ${cap:f}"
        session.screen.text(
            f"{cost_text(total)}{of_cap} for {plural(total.calls, 'call')}: "
            f"{tokens_text(total.input, total.calls)} tokens in, {tokens_text(total.output, total.calls)} out"
        )
        return
    rows = [(model, category, *cells(totals)) for (model, category), totals in ledger.rows().items()]
    if rows:
        session.screen.table(("model", "category", *HEADS), rows)
    else:
        session.screen.text("no calls yet")
    context, budget = session.context.total(offered=True), session.context.budget
    about = "" if context.exact else "~"
    session.screen.text(
        f"[estimated session ctx: {about}{context.value} tokens; token_budget={budget} "
        f"({percent(context.value, budget)} used)]"
    )
