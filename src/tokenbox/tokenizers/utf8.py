"""Tokenizers that need no vocabulary: a token is a byte."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tokenbox.characters import normalize
from tokenbox.errors import InvalidText, TokenizerError
from tokenbox.tokenizers.cuts import NFC
from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence


def utf8(text: str) -> bytes:
    """The UTF-8 form. Raises :class:`InvalidText` for lone surrogates, :class:`TokenizerError` if no text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidText.at(text) from None
    except AttributeError:
        raise TokenizerError(
            f"only text can be counted, not {type(text).__name__}. Decode bytes to str first."
        ) from None


def _decode(tokens: Sequence[int], name: str) -> str:
    try:
        return bytes(list(tokens)).decode("utf-8", "replace")
    except (TypeError, ValueError, OverflowError):
        raise TokenizerError(
            f"these are not token ids of {name}: give whole numbers from 0 to 255."
        ) from None


def identity_of(name: str, rule: str, *, exact: bool) -> TokenizerIdentity:
    """A counter by a rule, which takes the place of a vocabulary in the fingerprint."""
    return TokenizerIdentity(name, "1", hashlib.sha256(rule.encode()).hexdigest(), exact)


class Utf8Bytes(AdditiveTokenizer):
    """``utf8-bytes``: the number of UTF-8 bytes."""

    _who = identity_of("utf8-bytes", "the bytes of the UTF-8 form", exact=True)

    @property
    def identity(self) -> TokenizerIdentity:
        return self._who

    def weigh(self, text: str) -> int:
        return len(utf8(text))

    def count_of(self, weight: int) -> int:
        return weight

    def encode(self, text: str) -> list[int]:
        return list(utf8(text))

    def decode(self, tokens: Sequence[int]) -> str:
        return _decode(tokens, "utf8-bytes")


class FacetUnits(BaseTokenizer):
    """``facet-units``: the UTF-8 bytes after CRLF and CR became LF and the text became NFC (layout.md, 3).

    Decoding gives the normalized text. Unicode promises that NFC stays the same for characters that are
    assigned; those assigned after Unicode 14 (Python 3.11) are left as they are, so that a count is the same
    on every Python.
    """

    cuts = NFC
    cuts_proven = True
    _who = identity_of(
        "facet-units", "the bytes of the UTF-8 form after LF and NFC normalization", exact=True
    )

    @property
    def identity(self) -> TokenizerIdentity:
        return self._who

    def count(self, text: str) -> int:
        try:
            if text.isascii():
                return len(text) - text.count("\r\n")
        except (AttributeError, TypeError):
            pass  # no text: the way below says so
        return len(_normalized(text))

    def encode(self, text: str) -> list[int]:
        return list(_normalized(text))

    def decode(self, tokens: Sequence[int]) -> str:
        return _decode(tokens, "facet-units")


def _normalized(text: str) -> bytes:
    utf8(text)
    return normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n")).encode()
