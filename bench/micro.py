"""Single operations of tokenbox and the same with tiktoken: count, recount, prefix."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import counters
import workload

from tokenbox import tokenizers

if TYPE_CHECKING:
    from tokenbox.tokenizers.protocol import Tokenizer

MEGABYTE = 1_000_000
SIZES = {"1 KB": 1_000, "10 KB": 10_000, "1 MB": MEGABYTE}
TEXTS = {"1 KB": 300, "10 KB": 60, "1 MB": 1}
PREFIXES = (1_000, 100_000)
EDITS = 300


def measure(engine: str, rounds: int) -> dict[str, Any]:
    """Return medians, of tokenbox and tiktoken in turn; compare every result with tiktoken's."""
    tokenizer = tokenizers.get("o200k_base", engine=engine)
    tokenizer.count("warm up")
    result: dict[str, Any] = {"count": throughput(tokenizer, rounds)}
    for name, part in (("edit", recount), ("prefix", prefix), ("indexed", indexed_prefix)):
        try:
            result[name] = part(tokenizer, rounds)
        except ImportError as error:
            result[name] = {"error": str(error)}
    return result


def throughput(tokenizer: Tokenizer, rounds: int) -> dict[str, Any]:
    """Return characters per second, with new texts in every round."""
    encode = counters.o200k().encode_ordinary
    document = workload.megabyte(8 * MEGABYTE)
    result = {}
    for label, size in SIZES.items():
        volume = size * TEXTS[label]
        ours, peers = [], []
        wrong = 0
        for turn in range(rounds):
            first = turn * (len(document) - volume) // rounds
            texts = [document[start : start + size] for start in range(first, first + volume, size)]
            start = time.perf_counter()
            counted = [tokenizer.count(text) for text in texts]
            between = time.perf_counter()
            expected = [len(encode(text)) for text in texts]
            end = time.perf_counter()
            ours.append(between - start)
            peers.append(end - between)
            wrong += sum(a != b for a, b in zip(counted, expected, strict=True))
        result[label] = {"ours": volume / median(ours), "tiktoken": volume / median(peers), "wrong": wrong}
    return result


def recount(tokenizer: Tokenizer, rounds: int) -> dict[str, Any]:
    from tokenbox.tokenizers.index import TextIndex  # an ImportError concerns only this measurement

    encode = counters.o200k().encode_ordinary
    text = workload.megabyte(MEGABYTE)
    start = time.perf_counter()
    index = TextIndex(text, tokenizer)
    build = time.perf_counter() - start
    choose = random.Random(7)
    edits, length = [], len(text)
    for _ in range(EDITS):
        place = choose.randrange(length - 20)
        removed = choose.choice((0, 0, 5, 12))
        new = choose.choice((" edited", "x", "\nreturn None\n", "", "é"))
        edits.append((place, place + removed, new))
        length += len(new) - removed
    # Time all edits before the checks: these copy the megabyte and so evict the processor's caches.
    seconds, totals = [], []
    for place, end, new in edits:
        start = time.perf_counter()
        totals.append(index.replace(place, end, new))
        seconds.append(time.perf_counter() - start)
    full, wrong = [], 0
    for edit, (place, end, new) in enumerate(edits):
        text = text[:place] + new + text[end:]
        if edit % (EDITS // 10) == 0:
            start = time.perf_counter()
            expected = len(encode(text))
            full.append(time.perf_counter() - start)
            wrong += totals[edit] != expected
    wrong += index.text() != text
    return {
        "ours": median(seconds),
        "worst": max(seconds),
        "build": build,
        "tiktoken": median(full),
        "checked": len(full),
        "wrong": wrong,
    }


def indexed_prefix(tokenizer: Tokenizer, rounds: int) -> dict[str, Any]:
    """Measure the longest prefix with an index; compare it with the result of truncate."""
    from tokenbox.tokenizers.index import TextIndex
    from tokenbox.tokenizers.truncation import truncate

    encoding = counters.o200k()
    result = {}
    for tokens in PREFIXES:
        ours, peers = [], []
        wrong = 0
        for turn in range(max(rounds, 5)):
            text = f"{turn}\n{workload.megabyte(MEGABYTE)}"
            index = TextIndex(text, tokenizer)
            start = time.perf_counter()
            length = index.longest_prefix(tokens)
            between = time.perf_counter()
            encoding.decode(encoding.encode_ordinary(text)[:tokens])
            end = time.perf_counter()
            ours.append(between - start)
            peers.append(end - between)
            wrong += text[:length] != truncate(text, tokens, tokenizer)
        result[str(tokens)] = {"ours": median(ours), "tiktoken": median(peers), "wrong": wrong, "shorter": 0}
    return result


def prefix(tokenizer: Tokenizer, rounds: int) -> dict[str, Any]:
    from tokenbox.tokenizers.truncation import truncate

    encoding = counters.o200k()
    result = {}
    for tokens in PREFIXES:
        ours, peers = [], []
        wrong = shorter = 0
        for turn in range(max(rounds, 5)):
            # a new text each time, so that no cache helps
            text = f"{turn}\n{workload.megabyte(MEGABYTE)}"
            start = time.perf_counter()
            cut = truncate(text, tokens, tokenizer)
            between = time.perf_counter()
            plain = encoding.decode(encoding.encode_ordinary(text)[:tokens])
            end = time.perf_counter()
            ours.append(between - start)
            peers.append(end - between)
            wrong += not text.startswith(cut) or len(encoding.encode_ordinary(cut)) > tokens
            shorter += len(cut) < len(plain.rstrip("\ufffd"))
        result[str(tokens)] = {
            "ours": median(ours),
            "tiktoken": median(peers),
            "wrong": wrong,
            "shorter": shorter,
        }
    return result
