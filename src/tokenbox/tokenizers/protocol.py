"""The interface of tokenizers: they count texts and identify themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, SupportsIndex, runtime_checkable

from tokenbox.errors import TokenizerError, UnsupportedOperation
from tokenbox.records import AsRecord
from tokenbox.tokenizers.truncation import truncate

if TYPE_CHECKING:
    from functools import partial

    from tokenbox.tokenizers.patterns import CutRules

Engine = Literal["auto", "tiktoken", "fast"]


@dataclass(frozen=True, slots=True)
class TokenizerIdentity(AsRecord):
    """The identity of a tokenizer. Recorded in every layout, so that a count can be repeated.

    ``fingerprint``: SHA-256 (hex) of everything that decides the counts: ranks or merges, pattern,
    normalizer, special tokens. ``exact``: False for an estimate, whose figures are shown with ``~``.
    """

    name: str
    version: str
    fingerprint: str
    exact: bool


def json_digest(content: object) -> str:
    """Return the SHA-256 (hex) of JSON with sorted keys and no white space."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@runtime_checkable
class Tokenizer(Protocol):
    """A counter of tokens. Pure and thread-safe: the same text always has the same count.

    Special-token spellings in a text are ordinary text. Every method raises :class:`TokenizerError`
    (or a subclass) and nothing else for a text it cannot handle.
    """

    @property
    def identity(self) -> TokenizerIdentity: ...

    def count(self, text: str) -> int:
        """Return the number of tokens in ``text``; 0 for the empty text."""
        ...

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return ``[count(t) for t in texts]``, faster if the engine supports it."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return token ids. An estimate raises :class:`UnsupportedOperation`."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids; bytes that are not UTF-8 become U+FFFD."""
        ...


class Opened:
    """A counter with an identity, which does not change: copies share it, a pickle tells how it was opened.

    ``opened_by``: the call that opens it again, with a name or a file. It is None for a counter made of other
    objects: a pickle has its attributes.
    """

    opened_by: partial[Any] | None = None

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self.opened_by is None:
            return super().__reduce_ex__(protocol)
        counter: Any = self
        return _open_again, (self.opened_by, counter.identity)


def _open_again(opened_by: partial[Any], identity: TokenizerIdentity) -> Any:  # noqa: ANN401  # a counter
    """Return what the call opens. Raises :class:`TokenizerError` if that is not what was pickled."""
    found = opened_by()
    if found.identity != identity:
        raise TokenizerError(
            f"{identity.name} is not the one that was pickled: its file is another here, or tokenbox is. "
            "Install the same on both sides."
        )
    return found


class BaseTokenizer(Opened):
    """A base class for tokenizers. A subclass sets ``_identity`` and defines ``count``.

    ``cuts``: the places where the counts of the parts of a text add up to the count of the whole; None if
    unknown. ``cuts_proven``: True if the rule follows from the vocabulary's own pattern; otherwise callers
    verify its result. ``cheap``: True if counting costs little more than reading the text.
    """

    cuts: CutRules | None = None
    cuts_proven: bool = False
    cheap: bool = False
    _identity: TokenizerIdentity

    @property
    def identity(self) -> TokenizerIdentity:
        return self._identity

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
        """Prepare for counting ``characters`` characters, for instance load a faster engine."""

    def truncate(self, text: str, max_tokens: int, keep: str = "head") -> str:
        """Truncate ``text``: see :func:`tokenbox.tokenizers.truncation.truncate`."""
        return truncate(text, max_tokens, self, keep)


class AdditiveTokenizer(BaseTokenizer):
    """A tokenizer whose count is a function of a weight that is additive over concatenation.

    ``weigh(a + b) == weigh(a) + weigh(b)`` for all a, b, and ``count(t) == count_of(weigh(t))``
    with ``count_of`` non-decreasing. So the count of a text follows exactly from the weights of its parts.
    """

    def weigh(self, text: str) -> int:
        raise NotImplementedError

    def count_of(self, weight: int) -> int:
        raise NotImplementedError

    def count(self, text: str) -> int:
        return self.count_of(self.weigh(text))
