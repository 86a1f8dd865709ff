"""Safe cuts: the places where the counts of two parts add up to the count of the whole.

Token counts do not add up over concatenation in general. They do at a place where the vocabulary's
pre-tokenizer always ends one piece and starts the next, whatever lies further left and right.
All rules here look at one character on either side of the cut, so a cut that is safe in a text is safe
in every text that has the same two characters there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# How many characters are looked at first when searching backwards; doubled until a cut is found.
_FIRST_WINDOW = 16


@dataclass(frozen=True, slots=True)
class CutRules:
    """A named set of safe cuts. ``pattern`` matches the character before a cut, and looks ahead one."""

    name: str
    pattern: re.Pattern[str]

    def first(self, text: str, start: int = 0) -> int:
        """The first safe cut c with ``start < c < len(text)``, or -1. Looks at ``text[start:]`` only."""
        match = self.pattern.search(text, start)
        return match.end() if match else -1

    def last(self, text: str, end: int | None = None) -> int:
        """The last safe cut c with ``0 < c < end``, or -1. Looks at ``text[:end]`` only."""
        stop = len(text) if end is None else end
        window = _FIRST_WINDOW
        while True:
            start = max(0, stop - window)
            cut = -1
            for match in self.pattern.finditer(text, start, stop):
                cut = match.end()
            if cut >= 0 or start == 0:
                return cut
            window *= 4

    def head(self, text: str) -> str:
        """The text up to its first safe cut; all of it if there is none."""
        cut = self.first(text)
        return text if cut < 0 else text[:cut]

    def tail(self, text: str) -> str:
        """The text from its last safe cut; all of it if there is none."""
        cut = self.last(text)
        return text if cut < 0 else text[cut:]

    def is_cut(self, before: str, after: str) -> bool:
        """Whether the place between two single characters is a safe cut."""
        return self.pattern.match(before + after) is not None


UNIVERSAL = CutRules("universal", re.compile(r"\n(?=[^\s/])|[a-z](?= )"))
"""After a newline before a character that is neither white space nor ``/``; before a space that
follows ``[a-z]``. Holds for cl100k, o200k, llama3, qwen3, deepseek, gemma3 and tekken."""

GPT = CutRules(
    "gpt",
    re.compile(r"\n(?=[^\s/])|[^\W_](?=[\x00-&(-/:-@\[-`{-\x7f\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])"),
)
r"""As ``UNIVERSAL``, and after any letter or digit before an ASCII character that is none and no
apostrophe, or before CJK punctuation. Follows from the patterns of cl100k, o200k and llama3: a run of
letters ends where the letters end (an apostrophe could start a contraction), ``\p{N}{1,3}`` where the
digits end, and no other alternative takes in a letter or a digit."""

NFC = CutRules("nfc", re.compile(r"[^\r](?=[\x00-\x7f])|\r(?=[\x00-\x09\x0b-\x7f])", re.DOTALL))
"""Before an ASCII character: it composes with nothing on its left; only CR LF must stay together."""
