"""The pre-tokenizer patterns of published vocabularies, and the safe cuts of each.

A pattern splits a text into pieces, and byte-pair merging never crosses the boundary of a piece. So a place
where the pattern always ends one piece and starts the next is a safe cut (:mod:`tokenbox.tokenizers.cuts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tokenbox.tokenizers.cuts import GPT, LETTER, UNIVERSAL, CutRules

GPT2_CUTS: Final = CutRules("gpt2", re.compile(rf"{LETTER}(?=[\x00-&(-/:-@\[-`{{-\x7f])"))
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
