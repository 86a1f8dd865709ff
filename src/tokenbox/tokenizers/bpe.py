"""Exact tokenizers of the tiktoken kind: byte-pair ranks, a pattern, special tokens.

tiktoken counts, or fastokens if it is installed and worth loading. No text makes them panic: long texts
are split into chunks at safe cuts, and a chunk with a run of white space that is too long for tiktoken's
matcher is split into pieces here, by the same pattern.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NoReturn

from tokenbox.errors import MissingExtra, TokenizerError, UnsupportedOperation, VocabularyError
from tokenbox.tokenizers import vocabularies
from tokenbox.tokenizers.engines import Encode, Fast, Tiktoken, in_groups, is_failure
from tokenbox.tokenizers.patterns import cutting
from tokenbox.tokenizers.protocol import BaseTokenizer, Engine, TokenizerIdentity
from tokenbox.tokenizers.utf8 import refusal, utf8
from tokenbox.tokenizers.vocabularies import BASELINES, BpeSpec, fingerprint
from tokenbox.tokenizers.words import WordCounts

if TYPE_CHECKING:
    from tokenbox.tokenizers.vocabularies import Ranks

# Longer texts (in characters) are counted in chunks of about this length, which keeps the lists of token
# ids small.
CHUNK: Final = 65_536
# tiktoken panics at 1,000,000 white-space characters in a row (its matcher keeps that many backtracking
# states); with the patterns of known models nothing else is known to make it panic. Half of that is a safe
# limit.
_LONGEST_BLANK_RUN: Final = 500_000
_BLANK_RUN: Final = re.compile(r"\s{512,}")
# fastokens takes 1.1 s and 200 MB to load and saves 0.045 s per million characters (20 MB/s against
# 200 and more): for fewer characters than this, loading it costs more than it saves.
_WORTH_LOADING_FAST: Final = 25_000_000
# The limit if the number of characters is known in advance: its memory should pay off, too.
_WORTH_EXPECTED: Final = 2 * _WORTH_LOADING_FAST
_NEVER: Final = 2**62
# fastokens separates 's from 'ſ (U+017F) where the pattern of o200k does not.
_NOT_FOR_FAST: Final = ("\u017f", "\u180e")
# Up to this many texts, of up to this many characters, are counted faster by their words than as a batch.
_FEW: Final = 8
_BRIEF: Final = 16_384
# Characters per call of fastokens: a bound of the memory of its answer.
_BATCH: Final = 4_000_000


def baseline(name: str, engine: Engine = "auto") -> BpeTokenizer:
    """Return the tokenizer ``o200k_base`` or ``cl100k_base``; its vocabulary is read on the first count."""
    spec = BASELINES.get(name)
    if spec is None:
        known = ", ".join(sorted(BASELINES))
        raise VocabularyError(f"no vocabulary {name!r} in the package. There are: {known}.")
    return BpeTokenizer(spec, partial(vocabularies.load, name), vocabularies.PUBLISHED_SHA256[name], engine)


def from_ranks(ranks: Ranks, spec: BpeSpec, engine: Engine = "auto") -> BpeTokenizer:
    """Return a tokenizer of these ranks. Its fingerprint depends on the ranks, pattern and special tokens."""
    vocabularies.check_ranks(ranks, spec.name)
    tokenizer = BpeTokenizer(spec, lambda: ranks, ranks_digest(ranks), engine)
    tokenizer.load()
    return tokenizer


def ranks_digest(ranks: Ranks) -> str:
    """Return the SHA-256 (hex) of the rank file of these ranks, in rank order."""
    digest = hashlib.sha256()
    for token in sorted(ranks, key=ranks.__getitem__):
        digest.update(vocabularies.rank_line(token, ranks[token]))
    return digest.hexdigest()


class BpeTokenizer(BaseTokenizer):
    """A tokenizer that counts exactly as tiktoken does with these ranks, pattern and special tokens.

    The vocabulary is read on the first count. ``engine``: ``"tiktoken"``, ``"fast"`` (fastokens, the
    extra ``fast``), or ``"auto"``: tiktoken, and fastokens once enough is counted that it pays.
    """

    def __init__(
        self, spec: BpeSpec, read_ranks: Callable[[], Ranks], ranks_sha256: str, engine: Engine = "auto"
    ) -> None:
        if engine not in ("auto", "tiktoken", "fast"):
            raise TokenizerError(f"no engine {engine!r}. Choose one of: auto, tiktoken, fast.")
        self._spec = spec
        self._read_ranks = read_ranks
        digest = fingerprint(ranks_sha256, spec)
        self._identity = TokenizerIdentity(spec.name, spec.version, digest, exact=True)
        self._cutting = cutting(spec.pattern)
        self.cuts, self.cuts_proven = self._cutting.cuts, self._cutting.proven
        self._engine: Engine = engine
        self._lock = threading.Lock()
        self._tiktoken: Tiktoken | None = None
        self._fast: Fast | None = None
        self._ordinary: Encode = _not_loaded
        # With a published pattern a text can be cut at its spaces, so the counts of words are cached.
        self._words = WordCounts(self._encode_words, self._token_bytes) if self.cuts_proven else None
        # Characters until fastokens is loaded; below 1 it counts. Updates lost between threads do no harm.
        self._until_fast = {"auto": _WORTH_LOADING_FAST, "fast": 0}.get(engine, _NEVER)

    @property
    def spec(self) -> BpeSpec:
        """The pattern and special tokens."""
        return self._spec

    @property
    def engine(self) -> str:
        """The engine that counts now: ``"tiktoken"`` or ``"fast"``."""
        return "fast" if self._fast is not None else "tiktoken"

    def __getstate__(self) -> NoReturn:
        raise UnsupportedOperation(
            f"the tokenizer {self._spec.name} cannot be pickled: it was not opened by a name or a file. "
            "Pass on what it is made of, and make it there."
        )

    def __repr__(self) -> str:
        return f"<BpeTokenizer {self._spec.name} {self._identity.fingerprint[:12]}>"

    def load(self) -> None:
        """Read the vocabulary now instead of on the first count. Raises :class:`VocabularyError`."""
        with self._lock:
            if self._tiktoken is None:
                ranks = self._read_ranks()
                self._load_fast(ranks)  # before tiktoken: it needs twice its memory while it loads
                self._tiktoken = Tiktoken(ranks, self._spec, self._read_ranks)
                self._ordinary = self._exactly(self._tiktoken)

    def load_fast(self) -> None:
        """Load now what would be loaded while counting, so that no request of a server waits for it."""
        self.expect(_WORTH_EXPECTED)
        self._counted(0)
        self.load()

    def expect(self, characters: int) -> None:
        """Load fastokens before the first count if that many characters are worth it, else not for them."""
        if self._engine == "auto" and self._fast is None:
            is_worth_it = characters >= _WORTH_EXPECTED
            self._until_fast = (
                0 if is_worth_it else max(self._until_fast, 2 * characters + _WORTH_LOADING_FAST)
            )

    def count(self, text: str) -> int:
        try:
            size = len(text)
            if size <= CHUNK and self._until_fast > size:  # the usual case, on the shortest path
                self._until_fast -= size
                by_words = None if self._words is None else self._words.count(text)
                return len(self._ordinary(text)) if by_words is None else by_words
            if size <= CHUNK and self._fast is not None and _for_fast(text):
                found = self._fast.count(text)
                if found is not None:
                    return found
            return self._count_long(text)
        except _NotLoadedError:
            self.load()
            return self.count(text)
        except (TypeError, UnicodeEncodeError) as error:
            raise refusal(text, error) from None

    def _encode_words(self, text: str) -> Sequence[int]:
        return self._ordinary(text)

    def _token_bytes(self, token: int) -> bytes:
        assert self._tiktoken is not None  # noqa: S101  # it made the token
        return self._tiktoken.decode_bytes([token])

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise TokenizerError(f"count_batch takes a list of texts, not {type(texts).__name__}.")
        if self._tiktoken is None:
            self.load()
        counts: list[int] = [0] * len(texts)
        longest = 0 if self._words is None or len(texts) > _FEW else _BRIEF
        places = [n for n, text in enumerate(texts) if type(text) is str and longest < len(text) <= 2 * CHUNK]
        self._counted(sum(len(texts[n]) for n in places))
        fast = self._fast  # another thread may load it meanwhile
        if fast is not None:
            places = [n for n in places if _for_fast(texts[n])]
        if len(places) < len(texts):
            for n in set(range(len(texts))).difference(places):
                counts[n] = self.count(texts[n])
        together = in_groups([texts[n] for n in places], _BATCH)
        found = chain.from_iterable(self._count_group(fast, group) for group in together)
        for n, count in zip(places, found, strict=True):
            counts[n] = count
        return counts

    def _count_group(self, fast: Fast | None, texts: Sequence[str]) -> list[int]:
        """Count texts together; one by one if the engine fails."""
        found: list[int] | None
        try:
            found = (fast or self._tiktoken).count_batch(texts)  # type: ignore[union-attr]  # loaded
        except BaseException as error:
            is_pattern = is_failure(error) and not self.cuts_proven
            if not isinstance(error, UnicodeEncodeError) and not is_pattern:
                raise
            found = None
        return list(map(self.count, texts)) if found is None else found

    def _count_long(self, text: str) -> int:
        """Count a text chunk by chunk."""
        parts = list(self._parts(text))
        if len(parts) == 1:
            ((encode, chunk),) = parts
            return len(encode(chunk))
        return sum(self.count_batch([chunk for _, chunk in parts]))

    def encode(self, text: str) -> list[int]:
        try:
            if len(text) <= CHUNK:
                return list(next(self._parts(text))[0](text))
            return [token for encode, chunk in self._parts(text) for token in encode(chunk)]
        except (TypeError, UnicodeEncodeError) as error:
            raise refusal(text, error) from None

    def decode(self, tokens: Sequence[int]) -> str:
        self.load()
        try:
            return self._tiktoken.decode_bytes(list(tokens)).decode("utf-8", "replace")  # type: ignore[union-attr]
        except BaseException as error:
            if not is_failure(error):
                raise
            raise TokenizerError(not_tokens(self._spec.name)) from None

    def _parts(self, text: str) -> Iterator[tuple[Encode, str]]:
        """Yield chunks of a text whose counts add up to its own, each with the function that encodes it."""
        if self._tiktoken is None:
            self.load()
        size = len(text)
        self._counted(size)
        if size <= CHUNK:
            yield self._encoder(text), text
            return
        utf8(text)  # an error in a chunk would give the position within the chunk
        for chunk in self._cutting.chunks(text, CHUNK):
            yield self._encoder(chunk), chunk

    def _encoder(self, chunk: str) -> Encode:
        """Return the function that encodes a chunk exactly: of fastokens, of tiktoken, or by pieces."""
        exact = self._tiktoken
        if exact is None:
            raise _NotLoadedError
        if len(chunk) <= 2 * CHUNK:
            is_slow = self._fast is None or not _for_fast(chunk)
            return self._exactly(exact) if is_slow else self._fast_or_exact
        runs = _BLANK_RUN.finditer(chunk) if self.cuts_proven else ()
        is_long = any(run.end() - run.start() > _LONGEST_BLANK_RUN for run in runs)
        return exact.by_pieces if is_long else self._exactly(exact)

    def _exactly(self, exact: Tiktoken) -> Encode:
        """Return tiktoken's function. With a pattern of the user's it may raise a ``TokenizerError``."""
        return exact.ordinary if self.cuts_proven else exact.by_unknown_pattern

    def _fast_or_exact(self, chunk: str) -> Sequence[int]:
        found = None if self._fast is None else self._fast.encode(chunk)
        return found if found is not None else self._ordinary(chunk)

    def _counted(self, size: int) -> None:
        """Note that ``size`` characters are to be counted; load fastokens once that pays."""
        if self._fast is None:
            self._until_fast -= size
            if self._until_fast <= 0:
                with self._lock:
                    self._load_fast(None)

    def _load_fast(self, ranks: Ranks | None) -> None:
        """Load fastokens if that pays by now. Unless it was asked for, tiktoken goes on without it."""
        if self._fast is not None or self._until_fast > 0:
            return
        try:
            self._fast = Fast(ranks or self._read_ranks(), self._spec)
        except (MissingExtra, TokenizerError):
            if self._engine == "fast":
                raise
            self._until_fast = _NEVER


class _NotLoadedError(Exception):
    """The vocabulary has not been read."""


def _not_loaded(_text: str) -> Sequence[int]:
    raise _NotLoadedError


def _for_fast(text: str) -> bool:
    """Return True if fastokens counts the text as tiktoken does."""
    return not any(character in text for character in _NOT_FOR_FAST)


def not_tokens(name: str) -> str:
    return f"these are not token ids of {name}: give whole numbers that encode() returned."
