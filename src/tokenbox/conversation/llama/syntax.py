"""The tokens and the tree of llama.cpp's Jinja, and the error of a template that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tokenbox.errors import TokenboxError

MAX_SOURCE: Final = 1024 * 1024
MAX_TOKENS: Final = 100_000  # which take a second; the largest known templates have 15,000
MAX_NESTING: Final = 120


class TemplateError(TokenboxError, code="chat_template_error"):
    """A chat template cannot be used, or it refuses these messages: then with the template's own message."""


class TemplateTooLarge(TemplateError, code="chat_template_too_large"):
    """A chat template is longer, or does more, than any that is meant for a model."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the tree: its kind, its parts by position, and its name or constant value."""

    kind: str
    parts: tuple[Any, ...] = ()
    name: str = ""
    value: Any = None

    def nodes(self) -> list[Node]:
        found: list[Node] = []
        for part in self.parts:
            if isinstance(part, Node):
                found.append(part)
            elif isinstance(part, tuple):
                for item in part:
                    if isinstance(item, Node):
                        found.append(item)
                    elif isinstance(item, tuple):
                        found += [inner for inner in item if isinstance(inner, Node)]
        return found

    def walk(self) -> list[Node]:
        found, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += node.nodes()
        return found
