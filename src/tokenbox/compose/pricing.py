"""The choice of pricing for a tokenizer, and the check of the emitted whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from tokenbox.compose.counting import Counter
from tokenbox.compose.linear import AdditiveWhole
from tokenbox.compose.seamed import NotSeamable, SeamedWhole
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from tokenbox.compose.parts import Parts
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.protocol import Tokenizer

# An emitted whole of up to this many characters (about 2,000 tokens) is always counted again, as a check.
RECOUNTED = 8_192


def exact_whole(
    sections: Sequence[Section], separator: str, counter: Counter, sizes: Sequence[int] | None = None
) -> AdditiveWhole | SeamedWhole | None:
    """Return an exact pricing for this tokenizer; None for an unknown tokenizer.

    ``sizes``: the counts of the sections, if they are known.
    """
    tokenizer = counter.tokenizer
    if isinstance(tokenizer, AdditiveTokenizer):
        return AdditiveWhole(sections, separator, counter, tokenizer)
    rules = getattr(tokenizer, "cuts", None)
    return None if rules is None else SeamedWhole(sections, separator, counter, rules, sizes)


def checked_total(whole: Parts, pieces: Sequence[str]) -> int:
    """Return the count of the emitted whole for a check.

    If the vocabulary's pattern proves the cuts, a long text is summed from parts and seams: the sum then
    equals the count. Any other text is counted again.
    """
    if sum(map(len, pieces)) > RECOUNTED and getattr(whole.counter.tokenizer, "cuts_proven", False):
        return whole.total_of(range(len(whole.sections)))
    return whole.counter.whole("".join(pieces))


class _Bare(NamedTuple):
    """A text to price. It has the one attribute of a section that pricing uses."""

    content: str


def joined_total(
    texts: Sequence[str], separator: str, tokenizer: Tokenizer, sizes: Sequence[int] | None
) -> int:
    """Return the count of ``separator.join(texts)``. No text is empty; ``sizes`` are their counts, if known.

    If the cuts are proven and the sizes known, only the joins are counted.
    """
    proven = sizes is not None and getattr(tokenizer, "cuts_proven", False)
    if isinstance(tokenizer, AdditiveTokenizer) or proven:
        parts = cast("Sequence[Section]", [_Bare(text) for text in texts])
        try:
            whole = exact_whole(parts, separator, Counter(tokenizer), sizes)
        except NotSeamable:
            whole = None
        if whole is not None:
            return whole.total
    return tokenizer.count(separator.join(texts))
