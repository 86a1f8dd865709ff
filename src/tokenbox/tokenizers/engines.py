"""The engines that count by ranks and a pattern: tiktoken and fastokens."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenbox.errors import TokenizerError, VocabularyError, needing
from tokenbox.tokenizers import vocabularies

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import tiktoken

    from tokenbox.tokenizers.vocabularies import BpeSpec, Ranks

Encode = Callable[[str], Sequence[int]]

# The separator of texts that are encoded in one call. A text that contains it is encoded alone.
_CUT = "<|tokenbox cut|>"
_CUT_ONLY = frozenset({_CUT})
_ID_BYTES = 4
# Fewer characters are counted sooner without threads.
_WORTH_THREADS = 131_072
# The characters of a group of texts, which one call counts: calls are cheap, and the last one is short.
_GROUP = 32_768
_MAX_THREADS = 4
# The characters of a piece from which on a core of its own, which takes a third of a second, is made for it.
_LONG_PIECE = 1_000_000
_ANYTHING = r"[\s\S]+"
_BYTES = {bytes((byte,)): byte for byte in range(256)}
# Unicode's general categories, each with a character that is in it in every version.
_CATEGORIES = dict(
    zip(
        "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split(),
        "Ààǅʰª\u0300\u0903\u0488٠Ⅷ²‿֊༺༻«»¡¬¢¨¦\u00a0\u2028\u2029\x85\u00ad\ue000\u0378",
        strict=True,
    )
)


class Tiktoken:
    """tiktoken's engine. Its core is called directly: the public method takes 30 % longer for short texts.

    ``read_ranks`` reads the ranks again, to count a very long piece without holding up other threads.
    """

    def __init__(self, ranks: Ranks, spec: BpeSpec, read_ranks: Callable[[], Ranks] | None = None) -> None:
        import tiktoken

        self._cut_id = 1 + max([*ranks.values(), *spec.special_tokens.values()])
        special = {**spec.special_tokens, _CUT: self._cut_id}
        try:
            encoding = tiktoken.Encoding(
                spec.name, pat_str=spec.pattern, mergeable_ranks=ranks, special_tokens=special
            )
        except BaseException as error:
            if not is_failure(error):
                raise
            raise VocabularyError(f"{spec.name}: tiktoken cannot use this vocabulary: {error}") from None
        # Keep no reference to the Encoding if its core is enough: it holds a second copy of the ranks, 20 MB
        # for 200,000 of them.
        core: Any = getattr(encoding, "_core_bpe", None)
        self.ordinary: Encode = getattr(core, "encode_ordinary", None) or partial(_encode_checked, encoding)
        self._decode_bytes: Callable[[list[int]], bytes] = (
            getattr(core, "decode_bytes", None) or encoding.decode_bytes
        )
        self._buffer: Any = getattr(core, "encode_to_tiktoken_buffer", None)
        self._piece: Callable[[bytes], list[int]] = (
            getattr(core, "encode_single_piece", None) or encoding._encode_single_piece  # noqa: SLF001  # tiktoken has no public one
        )
        self._pattern, self._name = spec.pattern, spec.name
        self._read_ranks = read_ranks

    def decode_bytes(self, tokens: list[int]) -> bytes:
        if self._cut_id in tokens:
            raise KeyError(self._cut_id)
        return self._decode_bytes(tokens)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text. Many texts are grouped into few calls, which run in threads."""
        size = sum(map(len, texts))
        if size <= _GROUP:
            return list(map(len, map(self.ordinary, texts)))
        threads = 1 if size <= _WORTH_THREADS else min(_processors(), _MAX_THREADS)
        # tiktoken releases the GIL while it encodes, so threads run in parallel. This thread takes part: it
        # waits only for groups that another has begun, so a busy machine does not delay it.
        groups = list(in_groups(texts, _GROUP))
        counts: list[Sequence[int]] = [()] * len(groups)
        left = deque(range(len(groups)))

        def count_groups() -> None:
            with suppress(IndexError):
                while True:
                    place = left.popleft()
                    counts[place] = self._count_group(groups[place])

        others = [_pool().submit(count_groups) for _ in range(threads - 1)]
        count_groups()
        for other in others:
            if not other.cancel():
                other.result()
        return [count for group in counts for count in group]

    def _count_group(self, texts: Sequence[str]) -> list[int]:
        """Count texts in one call, joined by a special token, across which nothing merges."""
        joined = _CUT.join(texts)
        if self._buffer is None or joined.count(_CUT) != len(texts) - 1:
            return [len(self.ordinary(text)) for text in texts]
        ids = bytes(memoryview(self._buffer(joined, _CUT_ONLY)))
        mark = self._cut_id.to_bytes(_ID_BYTES, sys.byteorder)
        ends = []
        at = ids.find(mark)
        while at >= 0:
            if at % _ID_BYTES == 0:
                ends.append(at // _ID_BYTES)
            at = ids.find(mark, at + 1)
        ends.append(len(ids) // _ID_BYTES)
        return [ends[0], *(end - start - 1 for start, end in pairwise(ends))]

    def by_pieces(self, text: str) -> list[int]:
        """As ``ordinary``, but split by ``regex``, for published patterns: slower, for any length of text."""
        import regex

        tokens: list[int] = []
        for match in regex.compile(self._pattern).finditer(_as_read_by_tiktoken(text)):
            piece = text[match.start() : match.end()]
            is_long = self._read_ranks is not None and len(piece) > _LONG_PIECE
            tokens += self._without_lock(piece) if is_long else self._piece(piece.encode())
        return tokens

    def _without_lock(self, piece: str) -> Sequence[int]:
        """Encode a piece of a second or more without the GIL, which ``encode_single_piece`` keeps."""
        import tiktoken

        assert self._read_ranks is not None  # noqa: S101  # checked by the caller
        whole = tiktoken.Encoding(
            "piece", pat_str=_ANYTHING, mergeable_ranks=self._read_ranks(), special_tokens={}
        )
        return whole.encode_ordinary(piece)

    def by_unknown_pattern(self, text: str) -> Sequence[int]:
        """As ``ordinary``, for a pattern that may make tiktoken fail. ``regex`` might then never end."""
        try:
            return self.ordinary(text)
        except BaseException as error:
            if isinstance(error, TypeError | UnicodeEncodeError) or not is_failure(error):
                raise
            raise TokenizerError(
                f"{self._name} cannot split a text of {len(text):,} characters: its pattern backtracks too "
                "often. Count the text in parts, or use a published pattern."
            ) from None


class Fast:
    """fastokens' engine, built from our own ranks. Methods return None if it fails on a text."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        with needing("the engine fastokens", "fast"):
            from fastokens._native import Tokenizer
        import tempfile

        tokens = sorted(ranks, key=ranks.__getitem__)
        self._first = ranks[tokens[0]]
        if ranks[tokens[-1]] - self._first != len(tokens) - 1:
            raise TokenizerError(f"{spec.name}: fastokens needs ranks without gaps. Use engine='tiktoken'.")
        try:
            # It reads ranks only from a file. No special tokens: their spellings are ordinary text.
            with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
                path = Path(folder, "ranks.tiktoken")
                path.write_bytes(vocabularies.rank_file(tokens))
                self._tokenizer = Tokenizer.from_tiktoken(str(path), pattern=spec.pattern, special_tokens={})
        except BaseException as error:
            if not is_failure(error):
                raise
            raise TokenizerError(f"fastokens cannot be loaded: {error}. Use engine='tiktoken'.") from None

    def count(self, text: str) -> int | None:
        # As a batch: in each thread, to encode a first text takes 0.1 s and more.
        found = self.count_batch([text])
        return None if found is None else found[0]

    def encode(self, text: str) -> list[int] | None:
        try:
            ids: list[int] = self._tokenizer.encode_ordinary(text).ids
        except BaseException as error:
            if isinstance(error, UnicodeEncodeError) or not is_failure(error):
                raise
            return None
        return [token + self._first for token in ids] if self._first else ids

    def count_batch(self, texts: Sequence[str]) -> list[int] | None:
        try:
            _, offsets = self._tokenizer.encode_batch_flat(texts)
        except BaseException as error:
            if not is_failure(error):
                raise
            return None
        ends = [int.from_bytes(offsets[i : i + 8], "little") for i in range(0, len(offsets), 8)]
        return [end - start for start, end in pairwise(ends)]


def in_groups(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield consecutive ``texts`` in groups of at least ``size`` characters, except for the last group."""
    start = total = 0
    for place, text in enumerate(texts, 1):
        total += len(text)
        if total >= size:
            yield texts[start:place]
            start, total = place, 0
    if start < len(texts):
        yield texts[start:]


@cache
def _processors() -> int:
    """Return the number of processors to use, at most ``OMP_NUM_THREADS`` (set for one of many workers)."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(available, int(limit))) if limit.isascii() and limit.isdigit() else available


@cache
def _pool() -> ThreadPoolExecutor:
    """Return a shared pool: tiktoken has one matcher per thread, which is slow until it has warmed up."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(_processors(), _MAX_THREADS), thread_name_prefix="tokenbox-count")


if hasattr(os, "register_at_fork"):
    # A forked process inherits the pool's lock but none of its threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _as_read_by_tiktoken(text: str) -> str:
    """Replace each character that ``regex`` would put into another category by one of tiktoken's category.

    Each package has the tables of its own version of Unicode.
    """
    import regex

    if text.isascii():
        return text
    characters = "".join(set(text))
    replaced: dict[int, str] = {}
    for category, example in _CATEGORIES.items():
        found = set(bytes(_of_category(category).encode_ordinary(characters)).decode())
        others = found.difference(regex.findall(rf"\p{{{category}}}", characters))
        replaced |= dict.fromkeys(map(ord, others), example)
    return text.translate(replaced) if replaced else text


@cache
def _of_category(category: str) -> tiktoken.Encoding:
    """Return an encoding whose tokens are the bytes of the characters in a category, without any others."""
    import tiktoken

    return tiktoken.Encoding(
        category, pat_str=rf"\p{{{category}}}", mergeable_ranks=_BYTES, special_tokens={}
    )


def _encode_checked(encoding: tiktoken.Encoding, text: str) -> Sequence[int]:
    """Encode by the public API, but raise for lone surrogates, which it would replace by U+FFFD."""
    text.encode()
    return encoding.encode_ordinary(text)


def is_failure(error: BaseException) -> bool:
    """Return True for an ``Exception`` and for a panic of Rust code, but not for an interrupt.

    PyO3 raises panics as a ``BaseException`` of a class that it does not export.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
