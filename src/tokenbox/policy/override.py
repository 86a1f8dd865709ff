"""The escape hatch of the guard: explicit, per call, and recorded (nrv ADR 007, 5).

    ctx.enforce(model, chunks, override=override.allow_over_context("the server truncates, we checked"))

No setting, variable or file allows it permanently.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenbox.errors import TokenboxError

__all__ = ["Override", "allow_over_context"]

# The longest reason that a record accepts, in characters.
MAX_REASON = 1_000


@dataclass(frozen=True, slots=True)
class Override:
    """The permission to send one request although it exceeds the context, with a reason."""

    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        return {"allow_over_context": True, "reason": self.reason}


class InvalidOverride(TokenboxError, code="invalid_override"):
    """The reason of an override is not a text of at most 1,000 characters."""


def allow_over_context(reason: str | None = None) -> Override:
    """Let one request pass although it exceeds the context. ``reason`` is recorded as it is.

    Raises :class:`InvalidOverride` for a reason that is not a text of at most 1,000 characters.
    """
    if reason is not None and (type(reason) is not str or len(reason) > MAX_REASON or not _is_text(reason)):
        raise InvalidOverride(
            f"the reason of an override is a text of at most {MAX_REASON:,} characters, or left out.",
        )
    return Override(reason)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
