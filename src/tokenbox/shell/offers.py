"""The output of a command as an offer to the context: head and tail, within a budget of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenbox.shell.cleaning import FULL_SCREEN, readable

if TYPE_CHECKING:
    from tokenbox.shell.running import Ran
    from tokenbox.tokenizers.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class OutputOffer:
    """``text``: the command and its output. ``whole``, ``kept``: tokens before and after cutting."""

    command: str
    text: str
    whole: int
    kept: int
    binary: bool = False

    @property
    def cut(self) -> bool:
        return self.kept < self.whole


def has_output(ran: Ran) -> bool:
    """Return True if there is something to offer: more than blanks and marks of full-screen programs."""
    text = readable(ran.output)
    return text is None or bool(text.replace(FULL_SCREEN, "").strip())


def offer(ran: Ran, budget: int, tokenizer: Tokenizer, hide: Callable[[str], str]) -> OutputOffer:
    """Return the offer of a command that has ended, its output cut to ``budget`` tokens.

    ``hide`` removes secrets.
    """
    text = readable(ran.output)
    if text is None:
        size = f"[{ran.output.size:,} bytes that are not text]"
        return OutputOffer(ran.command, _transcript(hide(ran.command), size, ran.status), 0, 0, binary=True)
    from tokenbox.content.lenses.lines import ends_tokens  # not needed for the first prompt

    text = hide(text).strip("\n")
    whole = tokenizer.count(text)
    kept = ends_tokens(text, budget, tokenizer)
    return OutputOffer(
        ran.command,
        _transcript(hide(ran.command), kept if text else "[no output]", ran.status),
        whole,
        whole if kept == text else tokenizer.count(kept),
    )


def _transcript(command: str, output: str, status: int) -> str:
    failure = f"\n[exit status {status}]" if status else ""
    return f"$ {command}\n{output}{failure}"
