"""tokenbox, called as its README shows: ``layout(sections, budget, tokenizer)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counters import cheap_count

import tokenbox
from tokenbox import tokenizers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from counters import Recorder
    from workload import Item

    from tokenbox.tokenizers.protocol import Tokenizer

UNIT = "sections with priorities, shrink 1"


class Recorded:
    """A tokenizer that records counts and encodings and forwards everything else."""

    def __init__(self, inner: Tokenizer, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def count(self, text: str) -> int:
        self._recorder.note((text,))
        return self._inner.count(text)

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        self._recorder.note(texts)
        return self._inner.count_batch(texts)

    def encode(self, text: str) -> list[int]:
        self._recorder.note((text,))
        return self._inner.encode(text)


def tokenizer(counter: str, engine: str, recorder: Recorder | None) -> Tokenizer | Callable[[str], int]:
    """Return the tokenizer for ``layout``: a plain function, or tokenbox's own o200k on ``engine``."""
    if counter == "cheap":
        if recorder is None:
            return cheap_count

        def count(text: str) -> int:
            recorder.note((text,))
            return cheap_count(text)

        return count
    inner = tokenizers.get("o200k_base", engine=engine)
    return inner if recorder is None else Recorded(inner, recorder)


def section(item: Item) -> tokenbox.Section:
    return tokenbox.Section(id=item.id, content=item.text, priority=item.priority, shrink=1)


def mapping(item: Item) -> dict[str, object]:
    return {"id": item.id, "content": item.text, "priority": item.priority, "shrink": 1}


FORMS = {"sections": section, "dicts": mapping}


def prepare(
    items: Sequence[Item], budget: int, tokenizer: Tokenizer | Callable[[str], int], form: str
) -> Callable[[], tuple[list[str], str]]:
    make = FORMS[form]
    inputs = [make(item) for item in items]

    def run() -> tuple[list[str], str]:
        return [tokenbox.layout(inputs, budget, tokenizer).text], ""

    return run
