"""The settings of the shell, read once from the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from tokenbox.ledger import Unpriced
from tokenbox.render.lines import printable
from tokenbox.shell.errors import InvalidPrompt

if TYPE_CHECKING:
    from decimal import Decimal

    from tokenbox.config import Config
    from tokenbox.conversation.low_water import LowWater


# The fields of a session's settings that are keys of [cost]; the others are keys of [shell].
_COST: Final = {"cap": "cap_at_dollars", "day_cap": "cap_per_day", "unpriced": "unpriced"}


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """The settings of a session.

    ``output_tokens``: the budget of a command's output. ``allow``: commands that the model may run without
    approval. ``problems``: warnings for the user.
    """

    token_budget: int
    max_turns: int
    low_water: LowWater
    cache_marks: bool
    output_tokens: int
    summarize: bool
    system: str
    project: bool
    tools: bool
    prompt: str
    cap: Decimal | None
    day_cap: Decimal | None
    unpriced: Unpriced
    allow: tuple[str, ...]
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Config) -> ShellSettings:
        keys = [part.name for part in fields(cls) if part.name not in {*_COST, "problems"}]
        values: dict[str, Any] = {name: config.value(("shell", name)) for name in keys}
        values |= {name: config.value(("cost", key)) for name, key in _COST.items()}
        values |= {"system": values["system"] or "", "unpriced": Unpriced(values["unpriced"])}
        return cls(**values, problems=config.problems)


FIELDS: Final = ("model", "ctx_used", "ctx_budget", "cost", "folder", "status", "session")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with fields in braces, and its source. Figures that are estimates have a ``~``."""

    text: str
    source: str = ""

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in FIELDS:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                where = f"{self.source}: " if self.source else ""
                raise InvalidPrompt(
                    f"{where}a prompt has no field {{{name}}}. Its fields: {known}.", field=name
                )

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.text))

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the prompt. Others may have written the template and the names: only colours stay."""
        parts = [part if _COLOUR.fullmatch(part) else _visible(part) for part in _COLOUR.split(self.text)]
        return _FIELD.sub(lambda match: printable(values[match[1]]), "".join(parts))


def _visible(text: str) -> str:
    return "".join(character for character in text if character.isprintable() or character == "\n")
