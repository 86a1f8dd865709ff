"""Splitting and stemming of words: split at case and underscores, in lower case, without endings.

Chinese, Japanese, Korean and Thai write words without blanks, or with particles joined to them. A run of
these letters is split into pairs, which overlap.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from tokenbox.characters import known, lower

_PAIRED = (
    "\u0e00-\u0eff\u1100-\u11ff\u3005-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_ACCENTED = "À-ÖØ-öø-ɏ"
_WORD = re.compile(
    rf"[A-Z]{{2,}}(?=s(?![a-z])|v[0-9])|[A-Z]?[a-z]*(?:[{_ACCENTED}]+[a-z]*)+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
    rf"|[0-9]+|[{_PAIRED}]+|[^\W\d_A-Za-z{_ACCENTED}{_PAIRED}]+"
)
_RUN = re.compile(rf"[{_PAIRED}]{{3,}}")
# Words that are not specific to any text.
STOP_WORDS = frozenset(
    """
    fix fixes fixed
    a about after all also an and any are as at be because been before being between but by can could
    did do does doing don down each for from further get gets give had has have having he her here him
    his how i if in into is it its just like make makes me more most my no nor not now of off on once
    one only or other our out over own please s same she should so some such t than that the their them
    then there these they this those through to too under until up upon us very was way we were what
    when where which while who whom why will with would you your http https www com org co
    """.split()
)
_MIN_LENGTH = 3


def split(text: str) -> list[str]:
    """Split a text or an identifier into words, in lower case: ``lowWaterMark`` is low, water, mark."""
    return [part for word in _WORD.findall(known(text)) for part in _parts(lower(word))]


def _parts(word: str) -> list[str]:
    """Split a run of letters without blanks into pairs."""
    return [a + b for a, b in pairwise(word)] if _RUN.fullmatch(word) else [word]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Stem a word lightly: return a prefix of the word, with a final ``y`` as ``i``."""
    if len(word) <= _MIN_LENGTH or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:  # not "dies"
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, left in (
        ("ization", 3),
        ("ation", 3),
        ("ing", 3),
        ("ed", 3),
        ("ion", 4),
        ("er", 4),
        ("or", 5),
        ("able", 4),
        ("ment", 4),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= left:
            word = word[: -len(ending)]
            if len(word) > _MIN_LENGTH and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    for ending in ("ate", "ize", "ise", "at", "iz", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_LENGTH:
            word = word[: -len(ending)]
            break
    return f"{word[:-1]}i" if word.endswith("y") else word
