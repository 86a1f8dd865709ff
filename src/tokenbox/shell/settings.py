"""The settings of the shell, read once from the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast

from tokenbox.config import Level
from tokenbox.ledger import Unpriced
from tokenbox.shell.errors import InvalidPrompt

if TYPE_CHECKING:
    from tokenbox.config import Config
    from tokenbox.conversation.low_water import LowWater


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
        def value(name: str) -> object:
            return config.value(f"shell.{name}")

        allow, problems = _own_list(config)
        cap, day_cap = (config.value(f"cost.{name}") for name in ("cap_at_dollars", "cap_per_day"))
        return cls(
            cast("int", value("token_budget")),
            cast("int", value("max_turns")),
            cast("LowWater", value("low_water")),
            bool(value("cache_marks")),
            cast("int", value("output_tokens")),
            bool(value("summarize")),
            str(value("system") or ""),
            bool(value("project")),
            bool(value("tools")),
            str(value("prompt")),
            cap if isinstance(cap, Decimal) else None,
            day_cap if isinstance(day_cap, Decimal) else None,
            Unpriced(str(config.value("cost.unpriced"))),
            allow,
            (*config.problems, *problems),
        )


def _own_list(config: Config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that the user allows, and warnings. Settings of a project must not allow any."""
    setting = config.setting("shell.allow")
    allowed = cast("tuple[str, ...]", setting.value)
    if allowed and setting.origin.level is Level.PROJECT:
        reason = "Only your own settings may allow commands, so you will be asked about each."
        return (), (f"shell.allow in {setting.source} is ignored. {reason}",)
    return allowed, ()


DEFAULT_TEMPLATE: Final = "{model} {ctx_used}/{ctx_budget}> "
FIELDS: Final = ("model", "ctx_used", "ctx_budget", "cost", "folder", "status", "session")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with fields in braces. Figures that are estimates have a ``~``."""

    text: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in FIELDS:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                raise InvalidPrompt(f"a prompt has no field {{{name}}}. Its fields: {known}.", field=name)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.text))

    def filled(self, values: Mapping[str, str]) -> str:
        return _FIELD.sub(lambda match: values[match[1]], self.text)
