"""What the session has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.shell import figures
from tokenbox.shell.errors import BadArguments
from tokenbox.shell.figures import percent, plural

if TYPE_CHECKING:
    from tokenbox.ledger import Sum, Totals
    from tokenbox.shell.session import Session


def cost(session: Session, arguments: str) -> None:
    """The session's total; ``detail``: rows per model and category, then the context as it is.

    The rows are sums over all calls; the last line is what the next call sends: two different things.
    """
    if arguments not in {"", "detail"}:
        raise BadArguments(":cost takes nothing or detail.")
    ledger = session.record.ledger
    if not arguments:
        total = ledger.total
        cap = session.settings.cap
        of_cap = "" if cap is None else f" of ${cap:f}"
        session.screen.text(
            f"{figures.cost(total)}{of_cap} for {plural(total.calls, 'call')}: "
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
        figures.cost(totals),
    )


def _sum(tokens: Sum[int]) -> str:
    """``412``, ``~412`` with an estimate in it, ``412 + ?`` with an unknown, ``?`` of nothing known."""
    if tokens.unknown and not tokens.known:
        return "?"
    return f"{'~' if tokens.estimated else ''}{tokens.known:,}{' + ?' if tokens.unknown else ''}"
