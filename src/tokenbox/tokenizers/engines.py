"""The engines that count by ranks and a pattern: tiktoken and fastokens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tokenbox.errors import MissingExtra, TokenizerError, VocabularyError
from tokenbox.tokenizers import vocabularies

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import tiktoken

    from tokenbox.tokenizers.published import BpeSpec
    from tokenbox.tokenizers.vocabularies import Ranks

Encode = Callable[[str], Sequence[int]]

# Stands between texts that are encoded in one call. A text that holds it is not encoded so.
_CUT = "<|tokenbox cut|>"
_CUT_ONLY = frozenset({_CUT})
_ID_BYTES = 4
# Characters per call: enough to make calls and threads cheap. At most twice as many, to keep few ids.
_GROUP = 131_072
_MAX_THREADS = 4


class Tiktoken:
    """tiktoken's engine. Its own core is called directly: the public method adds 30 % to a short text."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        import tiktoken  # noqa: PLC0415

        self._cut_id = 1 + max([*ranks.values(), *spec.special_tokens.values()])
        special = {**spec.special_tokens, _CUT: self._cut_id}
        try:
            encoding = tiktoken.Encoding(
                spec.name, pat_str=spec.pattern, mergeable_ranks=ranks, special_tokens=special
            )
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise VocabularyError(f"{spec.name}: tiktoken cannot use this vocabulary: {error}") from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise VocabularyError(f"{spec.name}: tiktoken cannot use this vocabulary: {error}") from None
        # The Encoding itself is let go of where its core has all we need: it holds the ranks a second time,
        # which for 200,000 of them takes 20 MB.
        core: Any = getattr(encoding, "_core_bpe", None)
        self.ordinary: Encode = getattr(core, "encode_ordinary", None) or partial(_encode_checked, encoding)
        self._decode_bytes: Callable[[list[int]], bytes] = (
            getattr(core, "decode_bytes", None) or encoding.decode_bytes
        )
        self._buffer: Any = getattr(core, "encode_to_tiktoken_buffer", None)
        self._piece: Callable[[bytes], list[int]] = (
            getattr(core, "encode_single_piece", None) or encoding._encode_single_piece  # noqa: SLF001
        )
        self._pattern = spec.pattern

    def decode_bytes(self, tokens: list[int]) -> bytes:
        if self._cut_id in tokens:
            raise KeyError(self._cut_id)
        return self._decode_bytes(tokens)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        """The count of each text; of much text many per call of the engine, the calls in threads."""
        threads, size = min(_processors(), _MAX_THREADS), sum(map(len, texts))
        if threads == 1 or size <= _GROUP:
            return list(map(len, map(self.ordinary, texts)))
        # tiktoken lets go of the GIL while it encodes, so there is work for a thread on each processor.
        groups = list(_groups(texts, min(max(-(-size // threads), _GROUP), 2 * _GROUP)))
        return [count for group in _pool().map(self._count_group, groups) for count in group]

    def _count_group(self, texts: Sequence[str]) -> list[int]:
        """Count texts in one call: joined by a special token, which keeps them as apart as separate calls."""
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
            if not is_panic(error):
                raise
            return self.by_pieces(text)


class Fast:
    """fastokens' engine, built of our own ranks. Answers None for what it refuses."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        try:
            from fastokens._native import Tokenizer  # noqa: PLC0415
        except ImportError:
            raise MissingExtra.of("the engine fastokens", "fast") from None
        import tempfile  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        tokens = sorted(ranks, key=ranks.__getitem__)
        self._first = ranks[tokens[0]]
        if ranks[tokens[-1]] - self._first != len(tokens) - 1:
            raise TokenizerError(f"{spec.name}: fastokens needs ranks without gaps. Use engine='tiktoken'.")
        try:
            # It reads ranks from a file only. Without special tokens: their spellings are ordinary text.
            with tempfile.TemporaryDirectory(prefix="tokenbox-") as folder:
                path = Path(folder, "ranks.tiktoken")
                path.write_bytes(vocabularies.rank_file(tokens))
                self._tokenizer = Tokenizer.from_tiktoken(str(path), pattern=spec.pattern, special_tokens={})
        except (OSError, ValueError, TypeError) as error:
            raise TokenizerError(f"fastokens cannot be loaded: {error}. Use engine='tiktoken'.") from None
        except BaseException as error:
            if not is_panic(error):
                raise
            raise TokenizerError(f"fastokens cannot be loaded: {error}. Use engine='tiktoken'.") from None

    def count(self, text: str) -> int | None:
        try:
            return len(self._tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            raise
        except BaseException as error:
            if isinstance(error, Exception) or is_panic(error):
                return None
            raise

    def encode(self, text: str) -> list[int] | None:
        try:
            ids: list[int] = self._tokenizer.encode_ordinary(text).ids
            return [token + self._first for token in ids] if self._first else ids
        except UnicodeEncodeError:
            raise
        except BaseException as error:
            if isinstance(error, Exception) or is_panic(error):
                return None
            raise

    def count_batch(self, texts: list[str]) -> list[int] | None:
        try:
            _, offsets = self._tokenizer.encode_batch_flat(texts)
        except BaseException as error:
            if isinstance(error, Exception) or is_panic(error):
                return None
            raise
        ends = [int.from_bytes(offsets[i : i + 8], "little") for i in range(0, len(offsets), 8)]
        return [end - start for start, end in pairwise(ends)]


def _groups(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """``texts`` in runs of at least ``size`` characters together, but for the last."""
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
    """The processors this process may use: one of several workers is told so by ``OMP_NUM_THREADS``."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(there, int(said))) if said.isascii() and said.isdigit() else there


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that are kept: tiktoken gives each its own matcher, which is slow until it has warmed up."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    return ThreadPoolExecutor(min(_processors(), _MAX_THREADS), thread_name_prefix="tokenbox-count")


if hasattr(os, "register_at_fork"):
    # A forked process has the pool's lock but none of its threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _encode_checked(encoding: tiktoken.Encoding, text: str) -> Sequence[int]:
    """``encode_ordinary`` by the public API, which would put U+FFFD for lone surrogates."""
    text.encode()
    return encoding.encode_ordinary(text)


def is_panic(error: BaseException) -> bool:
    """A panic of Rust code: PyO3 raises it beside ``Exception``, from a class it does not export."""
    return type(error).__name__ == "PanicException"
