"""How a whole can be priced with a tokenizer, and the check of what was emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.compose.linear import AdditiveWhole
from tokenbox.compose.seamed import SeamedWhole
from tokenbox.tokenizers.protocol import AdditiveTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.compose.counting import Counter
    from tokenbox.compose.parts import Parts
    from tokenbox.content.section import Section

# Characters of an emitted whole up to which it is always counted anew, as a check: about 250,000 tokens.
RECOUNTED = 1_000_000


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


def checked_total(whole: Parts, text: str) -> int:
    """The count of the emitted whole, made anew; of a huge one, its parts and seams added up anew.

    The latter only where the vocabulary's own pattern proves the cuts: then it is the count.
    """
    if len(text) > RECOUNTED and getattr(whole.counter.tokenizer, "cuts_proven", False):
        return whole.total_of(range(len(whole.sections)))
    return whole.counter.whole(text)
