"""What a tokenizer is: something that counts, and says who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tokenbox.errors import TokenizerError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.tokenizers.cuts import CutRules


@dataclass(frozen=True, slots=True)
class TokenizerIdentity:
    """Who counted. Recorded in every layout, so that a count can be repeated.

    ``fingerprint`` is the SHA-256 (hex) of what decides the counts: ranks or merges, pattern,
    normalizer, special tokens. ``exact`` is False for an estimate, whose figures are shown with ``~``.
    """

    name: str
    version: str
    fingerprint: str
    exact: bool

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "exact": self.exact,
        }


@runtime_checkable
class Tokenizer(Protocol):
    """Counts text. Pure and thread-safe: the same text has the same count, always.

    Special-token spellings in a text are ordinary text. Every method raises :class:`TokenizerError`
    (or a subclass) and nothing else for a text it cannot handle.
    """

    @property
    def identity(self) -> TokenizerIdentity: ...

    def count(self, text: str) -> int:
        """The number of tokens of ``text``; 0 for the empty text."""
        ...

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """``[count(t) for t in texts]``, faster where the engine can."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids. An estimate raises :class:`UnsupportedOperation`."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of token ids; bytes that are not UTF-8 become U+FFFD."""
        ...


class BaseTokenizer:
    """What most tokenizers share. A subclass has ``identity`` and ``count``.

    ``cuts``: where the counts of the parts of a text add up to the count of the whole; None if
    nowhere is known. ``cuts_proven``: the rule follows from the vocabulary's own pattern; otherwise
    callers verify its result. ``cheap``: counting costs little more than reading the text.
    """

    cuts: CutRules | None = None
    cuts_proven: bool = False
    cheap: bool = False

    @property
    def identity(self) -> TokenizerIdentity:
        raise NotImplementedError

    def count(self, text: str) -> int:
        raise NotImplementedError

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        if isinstance(texts, str):
            raise TokenizerError("count_batch takes a list of texts, not str.")
        count = self.count
        return [count(text) for text in texts]

    def encode(self, text: str) -> list[int]:
        raise UnsupportedOperation(
            f"{self.identity.name} is an estimate: it has counts, but no tokens to encode to."
        )

    def decode(self, tokens: Sequence[int]) -> str:
        raise UnsupportedOperation(f"{self.identity.name} is an estimate: it has no tokens to decode.")

    def expect(self, characters: int) -> None:
        """So many characters are to be counted: what pays for that may be loaded now. Here: nothing."""

    def truncate(self, text: str, max_tokens: int, keep: str = "head") -> str:
        """See :func:`tokenbox.tokenizers.truncation.truncate`."""
        from tokenbox.tokenizers.truncation import truncate  # noqa: PLC0415  # truncation counts by this protocol

        return truncate(text, max_tokens, self, keep)


class AdditiveTokenizer(BaseTokenizer):
    """A tokenizer whose count is a function of a weight that adds up over concatenation.

    ``weigh(a + b) == weigh(a) + weigh(b)`` for all a, b, and ``count(t) == count_of(weigh(t))``
    with ``count_of`` non-decreasing. So the count of a whole is known from its parts exactly.
    """

    def weigh(self, text: str) -> int:
        raise NotImplementedError

    def count_of(self, weight: int) -> int:
        raise NotImplementedError

    def count(self, text: str) -> int:
        return self.count_of(self.weigh(text))
