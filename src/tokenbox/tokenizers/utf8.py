"""Tokenizers without a vocabulary: a token is a byte."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import filterfalse

from tokenbox.characters import normalize
from tokenbox.errors import InvalidText, TokenizerError
from tokenbox.tokenizers.patterns import NFC
from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, TokenizerIdentity


def utf8(text: str) -> bytes:
    """Return the UTF-8 bytes. Raises :class:`InvalidText` or :class:`TokenizerError`: :func:`refusal`."""
    try:
        return text.encode()
    except (UnicodeEncodeError, AttributeError) as error:
        raise refusal(text, error) from None


def check_texts(texts: Sequence[str]) -> None:
    """Raise the error of :func:`utf8` for a text that has no UTF-8 bytes. ASCII is not encoded for that."""
    try:
        others: Sequence[str] = list(filterfalse(str.isascii, texts))
    except TypeError:  # not all are texts
        others = texts
    for text in others:
        utf8(text)


def refusal(text: object, error: Exception) -> TokenizerError:
    """Return the error for a value that cannot be counted: lone surrogates, or not a text."""
    if not isinstance(text, str):
        return TokenizerError(
            f"only text can be counted, not {type(text).__name__}. Decode bytes to str first."
        )
    if isinstance(error, UnicodeEncodeError):
        return InvalidText.at(text)
    return TokenizerError(f"the text could not be counted: {error}")


def _decode(tokens: Sequence[int], name: str) -> str:
    try:
        return bytes(list(tokens)).decode("utf-8", "replace")
    except (TypeError, ValueError, OverflowError):
        raise TokenizerError(
            f"these are not token ids of {name}: give whole numbers from 0 to 255."
        ) from None


def identity_of(name: str, rule: str, *, exact: bool) -> TokenizerIdentity:
    """Return the identity of a counter that follows a rule; the rule's text is its fingerprint."""
    return TokenizerIdentity(name, "1", hashlib.sha256(rule.encode()).hexdigest(), exact)


class ByteTokenizer(AdditiveTokenizer):
    """A tokenizer whose count is a function of the number of UTF-8 bytes."""

    def weigh(self, text: str) -> int:
        return len(utf8(text))


class Utf8Bytes(ByteTokenizer):
    """``utf8-bytes``: the number of UTF-8 bytes."""

    _identity = identity_of("utf8-bytes", "the bytes of the UTF-8 form", exact=True)

    def count_of(self, weight: int) -> int:
        return weight

    def encode(self, text: str) -> list[int]:
        return list(utf8(text))

    def decode(self, tokens: Sequence[int]) -> str:
        return _decode(tokens, "utf8-bytes")


class FacetUnits(BaseTokenizer):
    """``facet-units``: the UTF-8 bytes after normalization to LF line ends and NFC (layout.md, 3).

    Decoding gives the normalized text. Unicode guarantees a stable NFC for assigned characters. Characters
    assigned after Unicode 14 (Python 3.11) are not normalized, so that a count is the same on every Python.
    """

    cuts = NFC
    cuts_proven = True
    _identity = identity_of(
        "facet-units", "the bytes of the UTF-8 form after LF and NFC normalization", exact=True
    )

    def count(self, text: str) -> int:
        try:
            if text.isascii():
                return len(text) - text.count("\r\n")
        except (AttributeError, TypeError):
            pass  # not a text: raised below
        return len(_normalized(text))

    def encode(self, text: str) -> list[int]:
        return list(_normalized(text))

    def decode(self, tokens: Sequence[int]) -> str:
        return _decode(tokens, "facet-units")


def _normalized(text: str) -> bytes:
    utf8(text)
    return normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).encode()
