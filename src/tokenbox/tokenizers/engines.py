"""The engines that count by ranks and a pattern: tiktoken and fastokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tokenbox.errors import MissingExtra, TokenizerError, VocabularyError
from tokenbox.tokenizers import vocabularies

if TYPE_CHECKING:
    import tiktoken

    from tokenbox.tokenizers.published import BpeSpec
    from tokenbox.tokenizers.vocabularies import Ranks

Encode = Callable[[str], Sequence[int]]


class Tiktoken:
    """tiktoken's engine. Its own core is called directly: the public method adds 30 % to a short text."""

    def __init__(self, ranks: Ranks, spec: BpeSpec) -> None:
        import tiktoken  # noqa: PLC0415

        special = dict(spec.special_tokens)
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


def _encode_checked(encoding: tiktoken.Encoding, text: str) -> Sequence[int]:
    """``encode_ordinary`` by the public API, which would put U+FFFD for lone surrogates."""
    text.encode()
    return encoding.encode_ordinary(text)


def is_panic(error: BaseException) -> bool:
    """A panic of Rust code: PyO3 raises it beside ``Exception``, from a class it does not export."""
    return type(error).__name__ == "PanicException"
