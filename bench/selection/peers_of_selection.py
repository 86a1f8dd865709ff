"""Selectors under test: the pack, other programs and simple baselines, over the same files and budget."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bm25 import bm25
from programs import PEERS, outputs

from tokenbox.folder import PackOptions, pack_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenbox.folder import Source
    from tokenbox.tokenizers.cache import CountCache
    from tokenbox.tokenizers.protocol import Tokenizer

    Selector = Callable[[Source, str | None, int, Tokenizer, CountCache], str]

CHUNK = 40  # lines


def packed(source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache) -> str:
    """tokenbox pack --budget N --query TEXT."""
    return pack_source(source, counter, budget, options=PackOptions(query), cache=cache).text


def packed_with_history(
    source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache
) -> str:
    """tokenbox pack --budget N --query TEXT --history."""
    return pack_source(source, counter, budget, options=PackOptions(query, history=True), cache=cache).text


def bm25_chunks(source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache) -> str:
    """Take the chunks of 40 lines with the best BM25 scores."""
    chunks = _chunks(source)
    scores = bm25([_words(text) for _, text in chunks], _words(query or ""))
    order = sorted(range(len(chunks)), key=lambda i: -scores[i])
    return _greedy([chunks[i] for i in order if scores[i] > 0], budget, counter)


def path_order(source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache) -> str:
    """Take chunks in the order of their paths."""
    return _greedy(_chunks(source), budget, counter)


def at_random(source: Source, query: str | None, budget: int, counter: Tokenizer, cache: CountCache) -> str:
    """Take chunks in a random order."""
    chunks = _chunks(source)
    random.Random(0).shuffle(chunks)
    return _greedy(chunks, budget, counter)


SELECTORS: dict[str, Selector] = {
    **{name: outputs(name) for name in PEERS},
    "tokenbox": packed,
    "tokenbox --history": packed_with_history,
    "bm25 chunks": bm25_chunks,
    "path order": path_order,
    "random": at_random,
}


def _chunks(source: Source) -> list[tuple[str, str]]:
    found = []
    for file in source.files:
        if file.text is None:
            continue
        lines = file.text.decode().splitlines(keepends=True)
        found += [(file.name, "".join(lines[at : at + CHUNK])) for at in range(0, len(lines), CHUNK)]
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())


def _greedy(chunks: list[tuple[str, str]], budget: int, counter: Tokenizer) -> str:
    """Return the chunks that fit, each below its path."""
    room, parts, misses = budget, [], 0
    for path, text in chunks:
        part = f"{path}\n{text}\n"
        size = len(part) // 12
        size = size if size > room else counter.count(part)
        if size <= room:
            parts.append(part)
            room -= size
        else:
            misses += 1
        if room < 20 or misses > 200:
            break
    return "".join(parts)
