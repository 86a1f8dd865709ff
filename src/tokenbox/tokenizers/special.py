"""Rendered chat prompts, in which the spellings of special tokens are those tokens.

A server that renders a chat template parses special tokens anywhere in the prompt, even if a user wrote one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from tokenbox.errors import VocabularyError
from tokenbox.tokenizers.cache import CountCache
from tokenbox.tokenizers.protocol import BaseTokenizer, TokenizerIdentity

# Cached counts of pieces: each turn counts the prompt again, one message longer.
PIECES = 50_000


@dataclass(frozen=True)
class ChatVocabulary:
    """The vocabulary and chat template in a model's files. ``tokenizer`` treats special spellings as text.

    ``special``: the spellings that are tokens in a prompt; ``later``: those of them that ``tokenizers``
    searches for where no other was found. ``add_bos``: llama.cpp puts ``bos`` first. ``kind``: a name for how
    it splits texts, under which its safe cuts are known to be proven or not. ``as_saved``: all servers
    that use these files are known to tokenize with them as they are.
    """

    tokenizer: BaseTokenizer
    special: tuple[str, ...]
    template: str | None
    bos: str = ""
    eos: str = ""
    add_bos: bool = False
    add_eos: bool = False
    kind: str = ""
    later: tuple[str, ...] = ()
    as_saved: bool = True

    @cached_property
    def prompts(self) -> PromptTokenizer:
        """The tokenizer of prompts."""
        leftmost = not self.kind.startswith("gguf")
        return PromptTokenizer(self.tokenizer, self.special, leftmost=leftmost, later=self.later)


_MAX_SPELLING = 1_000  # of characters; those of models have some dozens


class PromptTokenizer(BaseTokenizer):
    """A tokenizer of prompts: one token per special spelling, and the texts between them.

    Where spellings overlap, llama.cpp takes the longest first, wherever it is; ``tokenizers`` goes from the
    left (``leftmost``), first for the others, then for those in ``later``.

    Every text between special tokens is counted separately and cached, so a growing prompt costs little, and
    the sum is exact.
    """

    def __init__(
        self,
        inner: BaseTokenizer,
        spellings: Iterable[str],
        *,
        leftmost: bool = False,
        later: Collection[str] = (),
    ) -> None:
        special = set(spellings)
        if (longest := max(map(len, special), default=0)) > _MAX_SPELLING:
            raise VocabularyError(
                f"a special token has {longest:,} characters; at most {_MAX_SPELLING:,} are read. Fetch the "
                "file again."
            )
        self._special = sorted(special, key=lambda token: (-len(token.encode()), token))
        # If all user-defined tokens of the inner tokenizer are special, none occurs between special ones.
        known = getattr(inner, "user_defined", None)
        plain: BaseTokenizer = inner.between if known and known.issubset(special) else inner  # type: ignore[attr-defined]
        self._plain = plain
        self._pattern = _any_of(self._special) if self._special else None
        self._overlapping = _overlap(self._special)
        self._leftmost = leftmost
        last = special.intersection(later)
        passes = [[token for token in self._special if (token in last) is late] for late in (False, True)]
        self._passes = [_any_of(tokens) for tokens in passes if tokens]
        self.longest = longest
        self.cuts = getattr(plain, "cuts", None) if getattr(plain, "cuts_proven", False) else None
        self._counts = CountCache(PIECES)
        content = json.dumps([inner.identity.fingerprint, self._special])
        digest = hashlib.sha256(content.encode()).hexdigest()
        self._identity = TokenizerIdentity(
            inner.identity.name, inner.identity.version, digest, inner.identity.exact
        )

    def count(self, text: str) -> int:
        pieces = self._pieces(text)
        texts = [piece for piece in pieces if piece]
        return sum(self._counts.count_batch(self._plain, texts)) + len(pieces) - 1

    def count_plain(self, text: str) -> int:
        """Return the count of a text without special tokens."""
        return self._counts.count(self._plain, text) if text else 0

    def parts(self, text: str) -> list[str] | None:
        """Return the texts between special tokens, if the split is the same within every longer text.

        None if it may differ, because one spelling may contain or overlap another.
        """
        if self._pattern is None:
            return [text]
        return self._pattern.split(text) if self._apart else None

    @cached_property
    def _apart(self) -> bool:
        return not self._overlapping and not _contain(self._special)

    def _pieces(self, text: str) -> list[str]:
        """Return the texts between special tokens, one more than there are such tokens."""
        pieces = [text]
        if self._overlapping and not self._leftmost:
            for token in self._special:
                if token in text:
                    pieces = [part for piece in pieces for part in piece.split(token)]
            return pieces
        for tokens in self._passes:
            pieces = [part for piece in pieces for part in tokens.split(piece)]
        return pieces


def _any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)))


def _overlap(special: list[str]) -> bool:
    """Return True if two spellings can overlap in a text, so that their order matters."""
    starts = {token[:end] for token in special for end in range(1, len(token))}
    return any(token[start:] in starts for token in special for start in range(1, len(token)))


def _contain(special: list[str]) -> bool:
    """Return True if one spelling is part of another."""
    known = set(special)
    return any(
        token[start:end] in known
        for token in special
        for start in range(len(token))
        for end in range(start + 1, len(token) + 1)
        if end - start < len(token)
    )
