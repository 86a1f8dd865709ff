"""Users' tokenizers, tested before use and validated on every call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar, cast

from tokenbox.errors import InvalidTokenizer, TokenizerError, shown
from tokenbox.integers import given_count, given_counts
from tokenbox.named_code import name_of
from tokenbox.tokenizers.engines import is_failure
from tokenbox.tokenizers.protocol import AdditiveTokenizer, BaseTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.utf8 import check_texts, utf8

P = ParamSpec("P")
T = TypeVar("T")

# Texts that any tokenizer must handle: blanks, line ends of all kinds, scripts, marks, NUL, a long run.
PROBES: Final = (
    "",
    "a",
    " ",
    "\n",
    "a\r\nb\rc\n\n",
    "Context is a resource.",
    "def f(x):\n    return x / 2\n",
    "naïve 你好 🏳️‍🌈 e\u0301",
    "<|endoftext|>",
    "\x00",
    "a" * 1_000,
)


class GuardedTokenizer(BaseTokenizer):
    """A caller's tokenizer whose counts are validated and whose exceptions are converted.

    ``inner``: a function from a text to its count, or an object with ``count()``.
    """

    def __init__(
        self, inner: object, identity: TokenizerIdentity, *, cacheable: bool, what: str = "tokenizer"
    ) -> None:
        self.inner = inner
        self._identity = identity
        self._who = f"the {what} {identity.name}"
        self.cacheable = cacheable  # not for a function: without a fingerprint, its versions look the same
        self.cuts = getattr(inner, "cuts", None)
        self.cuts_proven = bool(getattr(inner, "cuts_proven", False))
        self.cheap = bool(getattr(inner, "cheap", False))
        self.load_fast = getattr(inner, "load_fast", None)
        count = getattr(inner, "count", None)
        self._count: Callable[[str], object] = count if callable(count) else cast("Any", inner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._identity.name} of {type(self.inner).__name__}>"

    def count(self, text: str) -> int:
        check_texts([text])
        return self.count_checked(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise TokenizerError(f"count_batch takes a list of texts, not {type(texts).__name__}.")
        check_texts(texts)
        return self.count_each_checked(texts)

    def count_checked(self, text: str) -> int:
        """Count a text that is known to have UTF-8 bytes."""
        return given_count(self._call(self._count, text), self._who)

    def count_each_checked(self, texts: Sequence[str]) -> list[int]:
        """Count texts that are known to have UTF-8 bytes."""
        together = getattr(self.inner, "count_batch", None)
        counts = self._call(lambda: list(together(texts) if together else map(self._count, texts)))
        if len(counts) != len(texts):
            raise TokenizerError(f"{self._who} gave {len(counts)} counts for {len(texts)} texts.")
        return given_counts(counts, self._who)

    def expect(self, characters: int) -> None:
        if isinstance(self.inner, BaseTokenizer):
            self.inner.expect(characters)

    def encode(self, text: str) -> list[int]:
        encode = getattr(self.inner, "encode", None)
        return super().encode(text) if encode is None else self._call(lambda: list(encode(text)))

    def decode(self, tokens: Sequence[int]) -> str:
        decode = getattr(self.inner, "decode", None)
        return super().decode(tokens) if decode is None else self._call(lambda: str(decode(tokens)))

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function; if it fails, raise a :class:`TokenizerError` from the exception."""
        try:
            return function(*args, **kwargs)
        except TokenizerError:
            raise
        except BaseException as error:
            if not is_failure(error) and not isinstance(error, SystemExit):
                raise
            raise TokenizerError(f"{self._who} failed: {type(error).__name__}: {error}") from error


class CallableTokenizer(GuardedTokenizer):
    """A tokenizer from a function that counts a text. It is an estimate unless it is declared exact."""

    def __init__(
        self, function: Callable[[str], int], name: str | None = None, *, exact: bool = False
    ) -> None:
        label = name or getattr(function, "__qualname__", None) or type(function).__qualname__
        # A function's behaviour cannot be fingerprinted, so the fingerprint is that of its name.
        fingerprint = hashlib.sha256(f"callable:{label}".encode()).hexdigest()
        identity = TokenizerIdentity(label, "unknown", fingerprint, exact)
        super().__init__(function, identity, cacheable=False, what="counter")
        self._count = function


class _GuardedWeights(GuardedTokenizer, AdditiveTokenizer):
    """A caller's additive tokenizer, with its weights."""

    inner: AdditiveTokenizer

    def weigh(self, text: str) -> int:
        utf8(text)
        return given_count(self._call(self.inner.weigh, text), self._who)

    def count_of(self, weight: int) -> int:
        return given_count(self._call(self.inner.count_of, weight), self._who)


def with_identity(tokenizer: object, identity: TokenizerIdentity) -> GuardedTokenizer:
    """Return a tokenizer with an identity, which is its own or differs only in its mark."""
    kind = _GuardedWeights if isinstance(tokenizer, AdditiveTokenizer) else GuardedTokenizer
    return kind(tokenizer, identity, cacheable=bool(getattr(tokenizer, "cacheable", True)))


def is_callers_own(tokenizer: object) -> bool:
    """Return True for code of the caller's, which counts by a rule of its own."""
    while isinstance(tokenizer, GuardedTokenizer):
        tokenizer = tokenizer.inner
    return not type(tokenizer).__module__.startswith("tokenbox.")


def guarded(impl: object, family: str, *, version: str, exact: bool) -> Tokenizer:
    """Return ``impl`` as a validated tokenizer.

    ``version`` and ``exact`` are for a function or an object without an identity. Raises
    :class:`InvalidTokenizer` if ``impl`` is not a tokenizer, or does not behave like one.
    """
    counts = callable(impl) or callable(getattr(impl, "count", None))
    if isinstance(impl, type | Sequence) or not counts:  # a list has a count too
        what = type(impl).__name__
        if isinstance(impl, type):
            what = f"the class {impl.__name__}: give an instance"
        raise InvalidTokenizer(
            f"the tokenizer of {family!r} is a function from text to a count, an object with count(), a "
            f"tokenizer's name or file:PATH, not {what}.",
            family=family,
        )
    if isinstance(impl, BaseTokenizer) and type(impl).__module__.startswith("tokenbox."):
        return impl
    identity = getattr(impl, "identity", None)
    if isinstance(identity, TokenizerIdentity):
        tokenizer = with_identity(impl, identity)
    else:
        named = _identity(impl, family, version, exact=exact)
        tokenizer = GuardedTokenizer(impl, named, cacheable=False)
    try_out(tokenizer, family)
    return tokenizer


def as_estimate(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with the same counts, marked as an estimate: it is exact for another model only."""
    if not tokenizer.identity.exact:
        return tokenizer
    return with_identity(tokenizer, replace(tokenizer.identity, exact=False))


def try_out(tokenizer: Tokenizer, family: str) -> None:
    """Raise :class:`InvalidTokenizer` unless the empty text is 0 tokens and counts are deterministic."""
    try:
        first = [tokenizer.count(text) for text in PROBES]
        second = [tokenizer.count(text) for text in reversed(PROBES)][::-1]
        together = tokenizer.count_batch(PROBES)
    except TokenizerError as error:
        raise InvalidTokenizer(
            f"the tokenizer of {family!r} cannot be used: {error.message}", family=family
        ) from (error.__cause__ or error)
    if first[0] != 0:
        raise InvalidTokenizer(
            f"the tokenizer of {family!r} gives {first[0]:,} for the empty text, which has 0 tokens. Leave "
            "out the tokens it adds around a text (begin, end).",
            family=family,
        )
    for text, *counts in zip(PROBES, first, second, together, strict=True):
        if len(set(counts)) > 1:
            raise InvalidTokenizer(
                f"the tokenizer of {family!r} is not deterministic: {shown(text)} is "
                f"{' and then '.join(f'{count:,}' for count in counts)} tokens. A count depends on the text "
                "only.",
                family=family,
            )


def _identity(impl: object, family: str, version: str, *, exact: bool) -> TokenizerIdentity:
    """Return the identity of user code, from its family, its name and its registered version."""
    label = name_of(impl).replace(":", ".")
    fingerprint = hashlib.sha256(f"own:{family}:{label}:{version}".encode()).hexdigest()
    return TokenizerIdentity(family, version, fingerprint, exact)
