"""Exact tokenizers of the tiktoken kind: byte-pair ranks, a pattern, special tokens.

Counting is tiktoken's, or fastokens' where it is installed and worth its loading. Both are called
such that no text makes them panic: long texts go in chunks between safe cuts, and a chunk with a run of
white space that tiktoken cannot match is split into pieces here, by the same pattern.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from tokenbox.errors import InvalidText, MissingExtra, TokenizerError, VocabularyError
from tokenbox.tokenizers import vocabularies
from tokenbox.tokenizers.patterns import CL100K, LLAMA3, O200K, cutting
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenbox.tokenizers.vocabularies import Ranks

Engine = Literal["auto", "tiktoken", "fast"]
Encode = Callable[[str], Sequence[int]]

# Texts beyond this many characters are counted in chunks of about this length: the lists of token ids
# stay small, and what follows below has to look at long texts only.
_CHUNK: Final = 65_536
# tiktoken panics at 1,000,000 white-space characters in a row (its pattern engine keeps that many
# states to go back to); nothing else was found to make it. A tenth of that is far from it.
_LONGEST_BLANK_RUN: Final = 100_000
_BLANK_RUN: Final = re.compile(r"\s{512,}")
# fastokens takes 1.1 s and 200 MB to load and saves 0.045 s per million characters (20 MB/s against
# 200 and more): before this many characters have been counted, loading it would cost more than it saves.
_WORTH_LOADING_FAST: Final = 25_000_000
_NEVER: Final = 2**62
# fastokens takes 's and 'ſ (U+017F) apart where the pattern of o200k does not.
_NOT_FOR_FAST: Final = "\u017f"
# How many characters go to fastokens in one call: bounds the memory of its answer.
_FAST_BATCH: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class BpeSpec:
    """All that decides the counts of a tokenizer of this kind, but for the ranks themselves."""

    name: str
    version: str
    pattern: str
    special_tokens: Mapping[str, int] = field(default_factory=dict)


BASELINES: Final[Mapping[str, BpeSpec]] = {
    "o200k_base": BpeSpec("o200k_base", "1", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "cl100k_base": BpeSpec(
        "cl100k_base",
        "1",
        CL100K,
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}
"""The vocabularies in the package, as tiktoken's ``openai_public.py`` describes them."""

LLAMA3_SHA256: Final = "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"
"""Of the rank file of Llama 3, ``tokenizer.model``."""

_LLAMA3_NAMED: Final = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
)
_LLAMA3_SPECIALS: Final = (
    *_LLAMA3_NAMED,
    *(f"<|reserved_special_token_{n}|>" for n in range(2, 256 - len(_LLAMA3_NAMED) + 2)),
)
_LLAMA3_TOKENS: Final = 128_000

LLAMA3_SPEC: Final = BpeSpec(
    "llama3-bpe", "1", LLAMA3, {spelling: _LLAMA3_TOKENS + n for n, spelling in enumerate(_LLAMA3_SPECIALS)}
)
"""As the tokenizer in the ``llama-models`` package on PyPI describes it."""


def fingerprint(ranks_sha256: str, spec: BpeSpec) -> str:
    """SHA-256 (hex) over the digest of the rank file, the pattern and the special tokens."""
    content = {"pattern": spec.pattern, "ranks": ranks_sha256, "special_tokens": dict(spec.special_tokens)}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def baseline(name: str, engine: Engine = "auto") -> BpeTokenizer:
    """The tokenizer ``o200k_base`` or ``cl100k_base`` from the package's own data; reads nothing yet."""
    spec = BASELINES.get(name)
    if spec is None:
        raise VocabularyError(f"no vocabulary {name!r} in the package. There are: {', '.join(sorted(BASELINES))}.")
    return BpeTokenizer(spec, partial(vocabularies.load, name), vocabularies.PUBLISHED_SHA256[name], engine)


def from_ranks(ranks: Ranks, spec: BpeSpec, engine: Engine = "auto") -> BpeTokenizer:
    """A tokenizer of ranks at hand. Equal ranks, pattern and special tokens give an equal fingerprint."""
    vocabularies.check_ranks(ranks, spec.name)
    tokenizer = BpeTokenizer(spec, lambda: ranks, ranks_digest(ranks), engine)
    tokenizer.load()
    return tokenizer


def ranks_digest(ranks: Ranks) -> str:
    """SHA-256 (hex) of the rank file of these ranks, in rank order."""
    import binascii  # noqa: PLC0415

    encode = binascii.b2a_base64
    digest = hashlib.sha256()
    for token in sorted(ranks, key=ranks.__getitem__):
        digest.update(b"%b %d\n" % (encode(token, newline=False), ranks[token]))
    return digest.hexdigest()


class BpeTokenizer(BaseTokenizer):
    """Counts as tiktoken counts with these ranks, pattern and special tokens: exactly, for any text.

    The vocabulary is read on the first count. ``engine``: ``"tiktoken"``, ``"fast"`` (fastokens, the
    extra ``fast``), or ``"auto"``: tiktoken, then fastokens once so much was counted that it pays.
    """

    def __init__(
        self, spec: BpeSpec, read_ranks: Callable[[], Ranks], ranks_sha256: str, engine: Engine = "auto"
    ) -> None:
        if engine not in ("auto", "tiktoken", "fast"):
            raise TokenizerError(f"no engine {engine!r}. There are: auto, tiktoken, fast.")
        self._spec = spec
        self._read_ranks = read_ranks
        self._identity = TokenizerIdentity(spec.name, spec.version, fingerprint(ranks_sha256, spec), exact=True)
        found = cutting(spec.pattern)
        self.cuts, self.cuts_proven = found.cuts, found.proven
        self._engine: Engine = engine
        self._lock = threading.Lock()
        self._tiktoken: _Tiktoken | None = None
        self._fast: _Fast | None = None
        self._ordinary: Encode = _not_loaded
        # Characters until fastokens is looked for; below 1 it counts. Updates lost between threads do no harm.
        self._until_fast = _WORTH_LOADING_FAST if engine == "auto" else _NEVER

    @property
    def identity(self) -> TokenizerIdentity:
        return self._identity

    @property
    def spec(self) -> BpeSpec:
        """Pattern and special tokens."""
        return self._spec

    @property
    def engine(self) -> str:
        """What counts now: ``"tiktoken"`` or ``"fast"``."""
        return "fast" if self._fast is not None else "tiktoken"

    def __repr__(self) -> str:
        return f"<BpeTokenizer {self._spec.name} {self._identity.fingerprint[:12]}>"

    def load(self) -> None:
        """Read the vocabulary now instead of on the first count. Raises :class:`VocabularyError`."""
        with self._lock:
            if self._tiktoken is None:
                ranks = self._read_ranks()
                if self._engine == "fast":
                    self._fast, self._until_fast = _Fast(ranks, self._spec), 0
                self._tiktoken = _Tiktoken(ranks, self._spec)
                self._ordinary = self._tiktoken.ordinary

    def count(self, text: str) -> int:
        try:
            size = len(text)
            if size <= _CHUNK and self._until_fast > size:  # the usual case, by the shortest way
                self._until_fast -= size
                return len(self._ordinary(text))
            return sum(len(encode(chunk)) for encode, chunk in self._parts(text))
        except _NotLoadedError:
            self.load()
            return self.count(text)
        except (TypeError, UnicodeEncodeError) as error:
            raise _refusal(text, error) from None

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        if self._fast is None or isinstance(texts, str):
            count = self.count
            return [count(text) for text in texts]
        counts: list[int] = [0] * len(texts)
        places: list[int] = []
        size = 0
        for place, text in enumerate(texts):
            if not isinstance(text, str) or len(text) > _CHUNK or _NOT_FOR_FAST in text:
                counts[place] = self.count(text)
                continue
            places.append(place)
            size += len(text)
            if size >= _FAST_BATCH:
                self._count_fast(texts, places, counts)
                places, size = [], 0
        self._count_fast(texts, places, counts)
        return counts

    def _count_fast(self, texts: Sequence[str], places: list[int], counts: list[int]) -> None:
        """Count the texts at ``places`` in one call of fastokens; one by one if it refuses any."""
        found = self._fast.count_batch([texts[place] for place in places]) if self._fast and places else None
        for n, place in enumerate(places):
            counts[place] = found[n] if found is not None else self.count(texts[place])

    def encode(self, text: str) -> list[int]:
        try:
            if len(text) <= _CHUNK:
                return list(next(self._parts(text))[0](text))
            return [token for encode, chunk in self._parts(text) for token in encode(chunk)]
        except (TypeError, UnicodeEncodeError) as error:
            raise _refusal(text, error) from None

    def decode(self, tokens: Sequence[int]) -> str:
        self.load()
        try:
            return self._tiktoken.decode_bytes(list(tokens)).decode("utf-8", "replace")  # type: ignore[union-attr]
        except (KeyError, TypeError, OverflowError, ValueError):
            raise TokenizerError(_not_tokens(self._spec.name)) from None
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise TokenizerError(_not_tokens(self._spec.name)) from None

    def _parts(self, text: str) -> Iterator[tuple[Encode, str]]:
        """The chunks of a text whose counts add up to its own, each with what encodes it."""
        size = len(text)
        if self._tiktoken is None:
            self.load()
        if self._until_fast > 0:
            self._until_fast -= size
            if self._until_fast <= 0:
                self._switch_to_fast()
        if size <= _CHUNK:
            yield self._encoder(text), text
            return
        # One check for the whole: chunks of it would name a character of the chunk.
        text.encode()
        for chunk in self._chunks(text):
            yield self._encoder(chunk), chunk

    def _chunks(self, text: str) -> Iterator[str]:
        """Cut at proven safe cuts into chunks of ``_CHUNK`` characters, longer where there is no cut."""
        start = 0
        if self.cuts_proven and self.cuts is not None:
            while len(text) - start > _CHUNK:
                cut = self.cuts.first(text, start + _CHUNK)
                if cut < 0:
                    break
                yield text[start:cut]
                start = cut
        yield text[start:] if start else text

    def _encoder(self, chunk: str) -> Encode:
        """What encodes a chunk exactly: fastokens for the usual, tiktoken, or our own splitting."""
        exact = self._tiktoken
        if exact is None:
            raise _NotLoadedError
        if len(chunk) <= 2 * _CHUNK:
            return exact.ordinary if self._fast is None or _NOT_FOR_FAST in chunk else self._fast_or_exact
        if any(run.end() - run.start() > _LONGEST_BLANK_RUN for run in _BLANK_RUN.finditer(chunk)):
            return exact.by_pieces
        return exact.ordinary if self.cuts_proven else exact.ordinary_or_by_pieces

    def _fast_or_exact(self, chunk: str) -> Sequence[int]:
        found = None if self._fast is None else self._fast.encode(chunk)
        return found if found is not None else self._ordinary(chunk)

    def _switch_to_fast(self) -> None:
        """Load fastokens if it is installed; if it is not, or cannot be, tiktoken goes on counting."""
        with self._lock:
            if self._fast is not None or self._until_fast > 0:
                return
            try:
                self._fast = _Fast(self._read_ranks(), self._spec)
            except (MissingExtra, TokenizerError):
                self._until_fast = _NEVER


class _NotLoadedError(Exception):
    """The vocabulary has not been read."""


def _not_loaded(text: str) -> Sequence[int]:
    raise _NotLoadedError


class _Tiktoken:
    """tiktoken's engine. Its own core is called directly: the public method adds 30 % to a short text."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        import tiktoken  # noqa: PLC0415

        try:
            encoding = tiktoken.Encoding(
                spec.name, pat_str=spec.pattern, mergeable_ranks=ranks, special_tokens=dict(spec.special_tokens)
            )
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise VocabularyError(f"{spec.name}: tiktoken cannot use this vocabulary: {error}") from None
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise VocabularyError(f"{spec.name}: tiktoken cannot use this vocabulary: {error}") from None
        core: Any = getattr(encoding, "_core_bpe", None)
        self.ordinary: Encode = getattr(core, "encode_ordinary", None) or partial(_encode_checked, encoding)
        self.decode_bytes: Callable[[list[int]], bytes] = encoding.decode_bytes
        self._piece: Callable[[bytes], list[int]] = (
            getattr(core, "encode_single_piece", None) or encoding._encode_single_piece  # noqa: SLF001
        )
        self._pattern = spec.pattern

    def by_pieces(self, text: str) -> list[int]:
        """What ``ordinary`` gives, with the splitting done here: slower, and no text is too long."""
        import regex  # noqa: PLC0415

        piece = self._piece
        tokens: list[int] = []
        for match in regex.compile(self._pattern).finditer(text):
            tokens += piece(match.group().encode())
        return tokens

    def ordinary_or_by_pieces(self, text: str) -> Sequence[int]:
        """For a pattern we know nothing of, which may make tiktoken give up where ours do not."""
        try:
            return self.ordinary(text)
        except UnicodeEncodeError:
            raise
        except ValueError:
            return self.by_pieces(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            return self.by_pieces(text)


class _Fast:
    """fastokens' engine, built of our own ranks. Answers None for what it refuses."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        try:
            from fastokens._native import Tokenizer  # noqa: PLC0415
        except ImportError:
            raise MissingExtra.of("the engine fastokens", "fast") from None
        import tempfile  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        lines = vocabularies.rank_file(sorted(ranks, key=ranks.__getitem__))
        if sorted(ranks.values()) != list(range(len(ranks))):
            raise TokenizerError(f"{spec.name}: fastokens needs ranks without gaps. Use engine='tiktoken'.")
        try:
            # It reads ranks from a file only. Without special tokens: their spellings are ordinary text.
            with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
                path = Path(folder, "ranks.tiktoken")
                path.write_bytes(lines)
                self._tokenizer = Tokenizer.from_tiktoken(str(path), pattern=spec.pattern, special_tokens={})
        except (OSError, ValueError, TypeError) as error:
            raise TokenizerError(f"fastokens cannot be loaded: {error}. Use engine='tiktoken'.") from None
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise TokenizerError(f"fastokens cannot be loaded: {error}. Use engine='tiktoken'.") from None

    def encode(self, text: str) -> list[int] | None:
        try:
            return self._tokenizer.encode_ordinary(text).ids
        except UnicodeEncodeError:
            raise
        except BaseException as error:
            if isinstance(error, Exception) or _is_panic(error):
                return None
            raise

    def count_batch(self, texts: list[str]) -> list[int] | None:
        try:
            _, offsets = self._tokenizer.encode_batch_flat(texts)
        except BaseException as error:
            if isinstance(error, Exception) or _is_panic(error):
                return None
            raise
        ends = [int.from_bytes(offsets[i : i + 8], "little") for i in range(0, len(offsets), 8)]
        return [end - start for start, end in zip(ends, ends[1:], strict=False)]


def _encode_checked(encoding: Any, text: str) -> Sequence[int]:
    """``encode_ordinary`` by the public API, which would put U+FFFD for lone surrogates."""
    text.encode()
    tokens: list[int] = encoding.encode_ordinary(text)
    return tokens


def _is_panic(error: BaseException) -> bool:
    """A panic of Rust code: PyO3 raises it beside ``Exception``, from a class it does not export."""
    return type(error).__name__ == "PanicException"


def _refusal(text: object, error: Exception) -> TokenizerError:
    """The error for what cannot be counted: lone surrogates, or no text at all."""
    if not isinstance(text, str):
        return TokenizerError(f"only text can be counted, not {type(text).__name__}. Decode bytes to str first.")
    if isinstance(error, UnicodeEncodeError):
        return InvalidText.at(text)
    return TokenizerError(f"the text could not be counted: {error}")


def _not_tokens(name: str) -> str:
    return f"these are not token ids of {name}: give whole numbers that encode() returned."
