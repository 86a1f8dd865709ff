"""Counting requests: each text once in its life, and the whole from its parts.

A guard stands before every request, so it may cost next to nothing: a text that was counted before is looked
up by itself. (Python hashes a string once; the digests of layouts cost more than counting with fastokens.)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tokenbox.compose.pricing import joined_total
from tokenbox.errors import TokenizerError
from tokenbox.tokenizers.registry import CallableTokenizer
from tokenbox.tokenizers.utf8 import utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.tokenizers.protocol import Tokenizer

    Key = tuple[str, ...]


# Parts whose joins cost a fast engine more than counting the whole anew.
MANY: Final = 200


class RememberedCounts:
    """Counts by the text itself, and of wholes by their texts; least recently used out first.

    What is remembered has at most ``max_characters``. Thread-safe: two threads may both count a text that
    neither finds, and agree.
    """

    def __init__(self, max_characters: int = 32_000_000) -> None:
        self._max_characters = max_characters
        self._counts: OrderedDict[Key, int] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def each(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
        """The count of each text."""
        if not getattr(tokenizer, "cacheable", True):
            return counted(tokenizer, texts)
        who = tokenizer.identity.fingerprint
        found = self._look_up([(who, text) for text in texts])
        if None not in found:
            return found  # type: ignore[return-value]  # no None is left
        missing = list(dict.fromkeys(text for text, count in zip(texts, found, strict=True) if count is None))
        new = dict(zip(missing, counted(tokenizer, missing), strict=True))
        for text, count in new.items():
            self._remember((who, text), count)
        return [new[text] if count is None else count for text, count in zip(texts, found, strict=True)]

    def whole(self, tokenizer: Tokenizer, texts: Sequence[str], separator: str) -> int:
        """The count of the texts that are not empty, joined."""
        parts = tuple(text for text in texts if text)
        if len(parts) <= 1:
            return self.each(tokenizer, parts)[0] if parts else 0
        key = (tokenizer.identity.fingerprint, separator, *parts)
        if not getattr(tokenizer, "cacheable", True):
            for text in parts:
                utf8(text)
            return joined_total(parts, separator, tokenizer, None)
        total = self._look_up([key])[0]
        if total is None:
            # Where nothing is known of the joins, only the whole is counted.
            by_parts = getattr(tokenizer, "cuts_proven", False) and not self._is_quicker_whole(
                tokenizer, parts
            )
            sizes = self.each(tokenizer, parts) if by_parts else None
            total = joined_total(parts, separator, tokenizer, sizes)
            self._remember(key, total)
        return total

    def _is_quicker_whole(self, tokenizer: Tokenizer, parts: Sequence[str]) -> bool:
        """Whether there are so many parts, none of them known, that a fast engine counts the whole sooner."""
        if len(parts) < MANY or getattr(tokenizer, "engine", None) != "fast":
            return False
        who = tokenizer.identity.fingerprint
        return not any(self._look_up([(who, text) for text in parts]))

    def limit(self, max_characters: int) -> None:
        """Remember no more than so many characters from now on."""
        with self._lock:
            self._max_characters = max_characters
            self._forget()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._counts.clear()
            self._characters = 0

    def _look_up(self, keys: Sequence[Key]) -> list[int | None]:
        counts, found = self._counts, []
        with self._lock:
            try:
                for key in keys:
                    if (count := counts.get(key)) is not None:
                        counts.move_to_end(key)
                    found.append(count)
            except TypeError:
                raise TokenizerError("only text can be counted.") from None
            return found

    def _remember(self, key: Key, count: int) -> None:
        size = sum(map(len, key))
        if size > self._max_characters // 4:
            return
        with self._lock:
            if key not in self._counts:
                self._characters += size
            self._counts[key] = count
            self._forget()

    def _forget(self) -> None:
        while self._characters > self._max_characters:
            gone, _ = self._counts.popitem(last=False)
            self._characters -= sum(map(len, gone))


def counted(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """The counts, made now. Our own tokenizers refuse what is not Unicode; other tokenizers may not."""
    if isinstance(tokenizer, CallableTokenizer) or not type(tokenizer).__module__.startswith("tokenbox."):
        for text in texts:
            utf8(text)
    if len(texts) == 1:
        return [tokenizer.count(texts[0])]  # a batch of one costs a look at it more
    return tokenizer.count_batch(texts)


COUNTS = RememberedCounts()
"""Those of this process."""
