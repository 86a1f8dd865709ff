"""The usage of one call, as the server reported it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeGuard

from tokenbox.errors import shown
from tokenbox.ledger.errors import InvalidUsage

# The largest figure that is accepted. A larger one is an error or an attack, and would overflow the sums of a
# database.
MOST_TOKENS = 10**12

# Each part with the figure that includes it.
PARTS = (
    ("cached_input_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("cache_write_1h_tokens", "input_tokens"),
    ("cache_write_1h_tokens", "cache_write_tokens"),
    ("reasoning_tokens", "output_tokens"),
)


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one call, in tokens. ``None`` is unknown, which is never 0.

    ``input_tokens`` includes what was read from a cache (``cached_input_tokens``) and what was written to one
    (``cache_write_tokens``), which includes what is kept there for an hour (``cache_write_1h_tokens``).
    ``output_tokens`` includes ``reasoning_tokens``. ``audio``: some tokens are audio, which costs other rates
    than text, unknown here. Raises :class:`InvalidUsage`; use :meth:`reported` for
    the figures of a server, which may be anything.
    """

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    audio: bool = False

    def __post_init__(self) -> None:
        for name in FIGURES:
            value = getattr(self, name)
            if value is not None and not is_count(value):
                raise InvalidUsage(
                    f"{name} is {shown(value)}; a number of tokens is a whole number from 0 to 10^12. "
                    "If it is not known, give None.",
                    field=name,
                )
        for part, whole in PARTS:
            size, total = getattr(self, part), getattr(self, whole)
            if size is not None and total is not None and size > total:
                raise InvalidUsage(
                    f"{part} is {size:,}, more than the {total:,} of {whole} it is part of. "
                    f"Count it into {whole}.",
                    field=part,
                )

    @classmethod
    def reported(
        cls,
        input_tokens: object = None,
        output_tokens: object = None,
        cached_input_tokens: object = None,
        reasoning_tokens: object = None,
        cache_write_tokens: object = None,
        cache_write_1h_tokens: object = None,
        *,
        audio: bool = False,
    ) -> Usage:
        """Return the usage in a server's answer. It never raises: an impossible figure is unknown."""
        read, written = _counted(input_tokens), _counted(output_tokens)
        kept = _part_of(_counted(cache_write_tokens), read)
        return cls(
            read,
            written,
            _part_of(_counted(cached_input_tokens), read),
            _part_of(_counted(reasoning_tokens), written),
            kept,
            _part_of(_part_of(_counted(cache_write_1h_tokens), read), kept),
            audio,
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIGURES} | ({"audio": True} if self.audio else {})


FIGURES = tuple(field.name for field in fields(Usage) if field.name != "audio")
UNKNOWN_USAGE = Usage(None, None)


def _counted(value: object) -> int | None:
    return value if is_count(value) else None


def _part_of(part: int | None, whole: int | None) -> int | None:
    return None if part is not None and whole is not None and part > whole else part


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a possible number of tokens."""
    return isinstance(value, int) and value.__class__ is not bool and 0 <= value <= MOST_TOKENS
