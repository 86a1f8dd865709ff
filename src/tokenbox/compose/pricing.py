"""How a whole can be priced with a tokenizer, and the check of what was emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from tokenbox.compose.counting import Counter
from tokenbox.compose.linear import AdditiveWhole
from tokenbox.compose.seamed import NotSeamable, SeamedWhole
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.compose.parts import Parts
    from tokenbox.content.section import Section
    from tokenbox.tokenizers.protocol import Tokenizer

# Characters of an emitted whole up to which it is always counted anew, as a check: about 2,000 tokens.
RECOUNTED = 8_192


def exact_whole(
    sections: Sequence[Section], separator: str, counter: Counter, sizes: Sequence[int] | None = None
) -> AdditiveWhole | SeamedWhole | None:
    """The exact pricing this tokenizer allows; None where nothing is known of it.

    ``sizes``: what the sections count, where that is known already.
    """
    tokenizer = counter.tokenizer
    if isinstance(tokenizer, AdditiveTokenizer):
        return AdditiveWhole(sections, separator, counter, tokenizer)
    rules = getattr(tokenizer, "cuts", None)
    return None if rules is None else SeamedWhole(sections, separator, counter, rules, sizes)


def checked_total(whole: Parts, pieces: Sequence[str]) -> int:
    """The count of the emitted whole, counted again in pieces; a long one is the sum of its parts and seams.

    The latter only where the vocabulary's own pattern proves the cuts: then it is the count.
    """
    if sum(map(len, pieces)) > RECOUNTED and getattr(whole.counter.tokenizer, "cuts_proven", False):
        return whole.total_of(range(len(whole.sections)))
    return whole.counter.whole("".join(pieces))


class _Bare(NamedTuple):
    """A text to be priced with others: all of a section that its price depends on."""

    content: str


def joined_total(
    texts: Sequence[str], separator: str, tokenizer: Tokenizer, sizes: Sequence[int] | None
) -> int:
    """The count of ``separator.join(texts)``, none of them empty, whose counts are ``sizes`` where known.

    Where the cuts are proven (and the sizes known) only the joins are counted, else the whole.
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
