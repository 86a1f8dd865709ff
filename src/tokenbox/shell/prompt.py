"""The prompt, from its template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tokenbox.shell.errors import InvalidPrompt

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_TEMPLATE: Final = "{model} {ctx_used}/{ctx_budget}> "
FIELDS: Final = ("model", "ctx_used", "ctx_budget", "cost", "folder", "status", "session")
_FIELD: Final = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A prompt with fields in braces; an estimate among its figures has a ``~``."""

    text: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in FIELDS:
                known = ", ".join(f"{{{field}}}" for field in FIELDS)
                raise InvalidPrompt(f"a prompt has no {{{name}}}. It may have {known}.", field=name)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(_FIELD.findall(self.text))

    def filled(self, values: Mapping[str, str]) -> str:
        return _FIELD.sub(lambda match: values[match[1]], self.text)
