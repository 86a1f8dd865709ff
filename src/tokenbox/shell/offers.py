"""The output of a command, as it is offered to the context: head and tail, within its own budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.shell.cleaning import FULL_SCREEN, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.shell.running import Ran
    from tokenbox.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class OutputOffer:
    """``text`` is what the model is told, with the command; ``whole`` is the tokens its output had."""

    command: str
    text: str
    whole: int
    kept: int
    binary: bool = False

    @property
    def cut(self) -> bool:
        return self.kept < self.whole


def has_output(ran: Ran) -> bool:
    """Whether there is something to offer: more than blanks and the place of a full-screen program."""
    text = readable(ran.output)
    return text is None or bool(text.replace(FULL_SCREEN, "").strip())


def offer(ran: Ran, budget: int, tokenizer: Tokenizer, hide: Callable[[str], str]) -> OutputOffer:
    """What is told of a command that has ended, its output cut to ``budget`` tokens.

    ``hide`` takes out what no model is to see.
    """
    text = readable(ran.output)
    if text is None:
        said = f"[{ran.output.size:,} bytes that are not text]"
        return OutputOffer(ran.command, _told(hide(ran.command), said, ran.status), 0, 0, binary=True)
    from tokenbox.content.lenses.lines import ends_tokens  # noqa: PLC0415  # not before the first prompt

    text = hide(text).strip("\n")
    whole = tokenizer.count(text)
    kept = ends_tokens(text, budget, tokenizer)
    return OutputOffer(
        ran.command,
        _told(hide(ran.command), kept if text else "[no output]", ran.status),
        whole,
        whole if kept == text else tokenizer.count(kept),
    )


def _told(command: str, output: str, status: int) -> str:
    ended = f"\n[exit status {status}]" if status else ""
    return f"$ {command}\n{output}{ended}"
