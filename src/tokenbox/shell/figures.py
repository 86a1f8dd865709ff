"""Numbers for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.ledger.money import dollars

if TYPE_CHECKING:
    from tokenbox.ledger import Totals
    from tokenbox.providers.counting import TokenCount


def figure(count: TokenCount) -> str:
    """``412``, or ``~412`` for an estimate."""
    return f"{'' if count.exact else '~'}{count.value:,}"


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(part: int, whole: int) -> str:
    """In whole percent, rounded half up; nothing has no part."""
    return "-" if whole == 0 else f"{(200 * part + whole) // (2 * whole)}%"


def cost(totals: Totals) -> str:
    """What calls cost, as far as is known: ``$0.0123``, ``~$0.0123``, ``$0.0123 + ?``, ``unpriced``."""
    known, unknown = totals.cost.known, totals.cost.unknown
    if not totals.calls:
        return "$0"
    if unknown == totals.calls:
        return "unpriced" if totals.unpriced == totals.calls else "$?"
    about = "~" if totals.cost.estimated else ""
    return f"{about}{dollars(known)}{' + ?' if unknown else ''}"
