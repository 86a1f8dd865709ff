"""Users' tokenizers, tested before use and validated on every call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from tokenbox.errors import InvalidTokenizer, TokenizerError
from tokenbox.integers import given_count
from tokenbox.tokenizers.engines import is_failure
from tokenbox.tokenizers.protocol import BaseTokenizer, Tokenizer, TokenizerIdentity
from tokenbox.tokenizers.registry import get
from tokenbox.tokenizers.utf8 import utf8

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
    """A wrapper with its own identity that validates a tokenizer's counts and converts its exceptions."""

    def __init__(self, inner: object, identity: TokenizerIdentity, *, cacheable: bool) -> None:
        self._inner = inner
        self._identity = identity
        self.cacheable = cacheable  # not for a function: without a fingerprint, its versions look the same
        self.cuts = getattr(inner, "cuts", None)
        self.cuts_proven = bool(getattr(inner, "cuts_proven", False))
        self.cheap = bool(getattr(inner, "cheap", False))

    def __repr__(self) -> str:
        return f"<GuardedTokenizer {self._identity.name} of {type(self._inner).__name__}>"

    def count(self, text: str) -> int:
        return self._validated([text], _one_by_one)[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        if isinstance(texts, str):
            raise TokenizerError("count_batch takes a list of texts, not str.")
        return self._validated(texts, _as_batch if hasattr(self._inner, "count_batch") else _one_by_one)

    def _validated(
        self, texts: Sequence[str], count: Callable[[object, Sequence[str]], Sequence[object]]
    ) -> list[int]:
        for text in texts:
            utf8(text)  # raises for lone surrogates and for values that are not text
        counts = cast("list[object]", self._call(lambda: list(count(self._inner, texts))))
        if len(counts) != len(texts):
            raise TokenizerError(
                f"the tokenizer {self._identity.name} gave {len(counts)} counts for {len(texts)} texts."
            )
        who = f"the tokenizer {self._identity.name}"
        return [given_count(value, who) for value in counts]

    def encode(self, text: str) -> list[int]:
        if not hasattr(self._inner, "encode"):
            return super().encode(text)
        return cast("list[int]", self._call(lambda: list(self._inner.encode(text))))  # type: ignore[attr-defined]

    def decode(self, tokens: Sequence[int]) -> str:
        if not hasattr(self._inner, "decode"):
            return super().decode(tokens)
        return cast("str", self._call(lambda: str(self._inner.decode(tokens))))  # type: ignore[attr-defined]

    def _call(self, function: Callable[[], object]) -> object:
        """Call the function; if it fails, raise a :class:`TokenizerError` from the exception."""
        try:
            return function()
        except TokenizerError:
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            raise TokenizerError(
                f"the tokenizer {self._identity.name} failed: {type(error).__name__}: {error}"
            ) from error


def guarded(impl: object, family: str, *, version: str, exact: bool) -> Tokenizer:
    """Return ``impl`` as a validated tokenizer; a name or ``file:PATH`` is opened.

    ``version`` and ``exact`` are for a function or an object without an identity. Raises
    :class:`InvalidTokenizer` if ``impl`` is not a tokenizer, or does not behave like one.
    """
    if isinstance(impl, str):
        return get(impl)
    counts = callable(impl) or callable(getattr(impl, "count", None))
    if isinstance(impl, type | Sequence) or not counts:  # a list has a count too
        what = f"the class {impl.__name__}: give an instance" if isinstance(impl, type) else repr(type(impl))
        raise InvalidTokenizer(
            f"the tokenizer of {family!r} is a function from text to a count, an object with count(), a "
            f"tokenizer's name or file:PATH, not {what}.",
            family=family,
        )
    if isinstance(impl, BaseTokenizer) and type(impl).__module__.startswith("tokenbox."):
        return impl
    identity = getattr(impl, "identity", None)
    known = isinstance(identity, TokenizerIdentity)
    tokenizer = GuardedTokenizer(
        impl,
        cast("TokenizerIdentity", identity) if known else _identity(impl, family, version, exact=exact),
        cacheable=known and bool(getattr(impl, "cacheable", True)),
    )
    try_out(tokenizer, family)
    return tokenizer


def as_estimate(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer with the same counts, marked as an estimate: it is exact for another model only."""
    if not tokenizer.identity.exact:
        return tokenizer
    return GuardedTokenizer(
        tokenizer,
        replace(tokenizer.identity, exact=False),
        cacheable=bool(getattr(tokenizer, "cacheable", True)),
    )


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
                f"the tokenizer of {family!r} is not deterministic: {_shown(text)} is "
                f"{' and then '.join(f'{count:,}' for count in counts)} tokens. A count depends on the text "
                "only.",
                family=family,
            )


def _as_batch(inner: object, texts: Sequence[str]) -> Sequence[object]:
    return cast("Sequence[object]", inner.count_batch(texts))  # type: ignore[attr-defined]


def _one_by_one(inner: object, texts: Sequence[str]) -> Sequence[object]:
    count = getattr(inner, "count", None)
    one = cast("Callable[[str], object]", count if callable(count) else inner)
    return [one(text) for text in texts]


def _identity(impl: object, family: str, version: str, *, exact: bool) -> TokenizerIdentity:
    """Return the identity of user code, from its family, its name and its registered version."""
    own = impl if hasattr(impl, "__qualname__") else type(impl)
    label = f"{getattr(own, '__module__', '?')}.{getattr(own, '__qualname__', type(impl).__qualname__)}"
    fingerprint = hashlib.sha256(f"own:{family}:{label}:{version}".encode()).hexdigest()
    return TokenizerIdentity(family, version, fingerprint, exact)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
