r"""What a line means.

    :name ARGUMENTS        a meta command; nothing of it reaches the model
    !command               a command, run as in a shell
    command |> question    a command, and a question about its output
    \text                  text, whatever it begins with or holds
    text                   something to say to the model

``|>`` asks about a command only where its left side begins with one: people write about ``|>`` too. With
``!`` in front there is no doubt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ASK: Final = "|>"
LITERAL: Final = "\\"
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_META: Final = re.compile(r":([A-Za-z?][\w-]*)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Nothing:
    """An empty line."""


@dataclass(frozen=True, slots=True)
class Meta:
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run; with ``question``, one to be asked about its output."""

    text: str
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Say:
    """``literal``: nothing in it has a meaning here, not even an @."""

    text: str
    literal: bool = False


Input = Nothing | Meta | Command | Say


def parse(line: str, is_command: Callable[[str], bool]) -> Input:
    """What ``line`` (maybe of several lines) means. ``is_command`` knows the names of commands."""
    text = line.strip()
    if not text:
        return Nothing()
    if text.startswith(LITERAL):
        return Say(text[1:].strip(), literal=True) if text[1:].strip() else Nothing()
    if (meta := _META.fullmatch(text)) is not None:
        return Meta(meta[1].lower(), (meta[2] or "").strip())
    if text.startswith("!"):
        command, question = _asked(text[1:].strip())
        return Command(command, question) if command else Nothing()
    command, question = _asked(text)
    if question is not None and is_command(_program(command)):
        return Command(command, question)
    return Say(text)


def _asked(text: str) -> tuple[str, str | None]:
    """The command and the question, which is behind the last ``|>`` that is not in quotes."""
    place = _last_unquoted(text)
    if place is None:
        return text, None
    return text[:place].strip(), text[place + len(ASK) :].strip()


def _last_unquoted(text: str) -> int | None:
    """The place of the last ``|>`` outside shell quotes. An apostrophe in the question is not a quote."""
    quote, found = "", None
    skip = False
    for i, c in enumerate(text):
        if skip:
            skip = False
        elif c == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            # After the first |> the question may begin, and "what's" opens no quotation there.
            quote = c if found is None or c in text[i + 1 :] else ""
        elif text.startswith(ASK, i):
            found = i
    return found


def _program(command: str) -> str:
    """The word that names what is run, behind assignments."""
    for word in command.split():
        if not _ASSIGNMENT.match(word):
            return word
    return ""
