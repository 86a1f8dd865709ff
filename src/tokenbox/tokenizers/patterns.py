"""The pre-tokenizer patterns of published vocabularies, and the safe cuts of each.

In general, token counts are not additive over concatenation. A pattern splits a text into pieces, and
byte-pair merging never crosses the boundary of a piece. So where the pattern always ends one piece and starts
the next, whatever text is further left and right, is a safe cut: the counts of the two parts add up. Every
rule here depends on one character on each side, so a cut that is safe in one text is safe in every text with
the same two characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

# The first window, in characters, of a backward search; it grows fourfold until a cut is found.
_FIRST_WINDOW = 16


@dataclass(frozen=True)
class CutRules:
    """A named set of safe cuts. ``source`` matches the character before a cut, and looks ahead one.

    Patterns are compiled on use: that takes 1 ms each, and a run needs few of them.
    """

    name: str
    source: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source)

    @cached_property
    def _last(self) -> re.Pattern[str]:
        """Matches to the end of the text, then backtracks to the last cut."""
        return re.compile(rf"(?s:.*)(?:{self.source})")

    def first(self, text: str, start: int = 0) -> int:
        """Return the first safe cut c with ``start < c < len(text)``, or -1. Reads ``text[start:]`` only."""
        match = self.pattern.search(text, start)
        return match.end() if match else -1

    def last(self, text: str, end: int | None = None) -> int:
        """Return the last safe cut c with ``0 < c < end``, or -1. Reads ``text[:end]`` only."""
        stop = len(text) if end is None else end
        window = _FIRST_WINDOW
        while True:
            start = max(0, stop - window)
            match = self._last.match(text, start, stop)
            if match:
                return match.end()
            if start == 0:
                return -1
            window *= 4

    def head(self, text: str) -> str:
        """Return the text up to its first safe cut; without a safe cut, the entire text."""
        cut = self.first(text)
        return text if cut < 0 else text[:cut]

    def tail(self, text: str) -> str:
        """Return the text from its last safe cut; without a safe cut, the entire text."""
        cut = self.last(text)
        return text if cut < 0 else text[cut:]

    def is_cut(self, before: str, after: str) -> bool:
        """Return True if the place between two single characters is a safe cut."""
        return self.pattern.match(before + after) is not None


# Letters and digits in every Unicode version in use. Python and each engine have their own tables, so newer
# letters may be unknown to one of them. A smaller set means fewer cuts, never a wrong one.
LETTER = (
    "[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0388-\u038a\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u0523"
    "\u0531-\u0556\u0561-\u0587\u05d0-\u05ea\u0621-\u064a\u0660-\u0669\u0671-\u06d3\u06f0-\u06f9\u0904-\u0939"
    "\u0966-\u096f\u0985-\u098c\u0993-\u09a8\u09aa-\u09b0\u0b85-\u0b8a\u0bae-\u0bb9\u0c05-\u0c0c\u0c12-\u0c28"
    "\u0e01-\u0e30\u0e50-\u0e59\u10d0-\u10f6\u1780-\u17b3\u1e00-\u1e9b\u1ea0-\u1ef9\u3041-\u3096\u30a1-\u30fa"
    "\u3400-\u4db5\u4e00-\u9fa5\uac00-\ud7a3\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
)

UNIVERSAL = CutRules("universal", r"\n(?=[^\s/])|[a-z](?= )")
"""After a newline before a character that is neither white space nor ``/``; before a space that
follows ``[a-z]``. Valid for cl100k, o200k, llama3, qwen3, deepseek, gemma3 and tekken."""

GPT = CutRules(
    "gpt",
    rf"\n(?=[^\s/])|{LETTER}(?=[\x00-&(-/:-@\[-`{{-\x7f\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f])",
)
r"""As ``UNIVERSAL``, and after any letter or digit before CJK punctuation or an ASCII character other than a
letter, a digit or an apostrophe. This follows from the patterns of cl100k, o200k and llama3: a run of letters
ends where the letters end (an apostrophe could start a contraction), ``\p{N}{1,3}`` where the digits end, and
no other alternative matches a letter or a digit."""

NFC = CutRules("nfc", r"[^\r](?=[\x00-\x7f])|\r(?=[\x00-\x09\x0b-\x7f])")
"""Before an ASCII character, which never composes with a character on its left, except within CR LF."""


GPT2_CUTS: Final = CutRules("gpt2", rf"{LETTER}(?=[\x00-&(-/:-@\[-`{{-\x7f])")
r"""After any letter or digit before an ASCII character other than a letter, a digit or an apostrophe: ``GPT``
without its newline rule, for the GPT-2 family, whose ``\s+`` continues after a newline. A run of letters or
digits ends where they end, and only the contractions also match letters."""

_END: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CASED: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"
)
_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"

O200K: Final = (
    _CASED % (_CONTRACTIONS + "?", _CONTRACTIONS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _END
)
CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
LLAMA3: Final = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _END
QWEN2: Final = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _END
TEKKEN: Final = _CASED % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _END
GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

NAMED: Final[Mapping[str, str]] = {
    "o200k_base": O200K,
    "cl100k_base": CL100K,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
    "tekken": TEKKEN,
    "gpt2": GPT2,
}
"""The patterns that a user may choose by name."""

_PROVEN: Final[Mapping[str, CutRules]] = {
    O200K: GPT,
    CL100K: GPT,
    LLAMA3: GPT,
    QWEN2: GPT,
    TEKKEN: GPT,
    GPT2: GPT2_CUTS,
}


@dataclass(frozen=True, slots=True)
class Cutting:
    """The safe cuts of a pattern. ``proven``: they follow from the pattern."""

    cuts: CutRules
    proven: bool

    def chunks(self, text: str, size: int) -> Iterator[str]:
        """Split ``text`` into chunks of about ``size`` characters whose counts add up.

        A chunk is longer if no safe cut follows, and unproven cuts are not used.
        """
        start = 0
        while self.proven and len(text) - start > size:
            cut = self.cuts.first(text, start + size)
            if cut < 0:
                break
            yield text[start:cut]
            start = cut
        yield text[start:]


def cutting(pattern: str) -> Cutting:
    """Return the safe cuts of a pattern: proven for this module's patterns, else the universal ones."""
    rules = _PROVEN.get(pattern)
    return Cutting(UNIVERSAL, proven=False) if rules is None else Cutting(rules, proven=True)
