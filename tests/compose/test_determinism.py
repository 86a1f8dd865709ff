"""The same bytes and digest in every process, under every hash seed, in every thread, with every engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

import tokenbox
from tests.compose.independent import HOSTILE
from tests.waiting import SECONDS
from tokenbox.tokenizers import CountCache, get

ROOT = Path(__file__).parents[2]
NAMES = ("o200k_base", "code-aware", "facet-units")
BUDGETS = (0, 1, 40, 90, 150, 1_000)


def sections() -> list[dict[str, object]]:
    return [
        {
            "id": f"s{i}",
            "content": "".join(HOSTILE[(i * 7 + k * k) % len(HOSTILE)] for k in range(i % 9)),
            "priority": i * 37 % 5,
            "min": i % 3,
            "shrink": ("1", 0.5, "0.1")[i % 3],
            "grow": i % 2,
            "extra": ["one more", " and one\n"],
            "strategy": ("squeeze", None, "trim |> head(2)")[i % 3],
            "keep": ("head", "tail", "middle", "ends")[i % 4],
        }
        for i in range(40)
    ]


def fingerprints(
    given: list[dict[str, object]] | None = None, cache: CountCache | None = None
) -> list[list[str]]:
    return [
        [result.digest, result.text]
        for name in NAMES
        for budget in BUDGETS
        for reclaim in (False, True)
        for result in [tokenbox.layout(given or sections(), budget, name, reclaim=reclaim, cache=cache)]
    ]


@pytest.fixture(scope="module")
def expected() -> list[list[str]]:
    return fingerprints(cache=CountCache())


PROGRAM = (
    "import json; from tests.compose.test_determinism import fingerprints; print(json.dumps(fingerprints()))"
)


@pytest.mark.slow
def test_processes_and_hash_seeds(expected: list[list[str]]) -> None:
    """The seed of this process is random."""
    package = Path(tokenbox.__file__).parents[1]
    environment = os.environ | {
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join((str(package), str(ROOT))),
    }
    done = subprocess.run(  # the program is the constant above
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=SECONDS,
    )
    assert json.loads(done.stdout) == expected


@pytest.mark.slow
def test_eight_threads_with_one_cache(expected: list[list[str]]) -> None:
    cache = CountCache(50)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: fingerprints(cache=cache), range(8)))
    assert all(result == expected for result in results)


def test_the_order_of_keys_does_not_matter(expected: list[list[str]]) -> None:
    assert fingerprints([dict(reversed(section.items())) for section in sections()]) == expected


def test_section_objects_equal_mappings(expected: list[list[str]]) -> None:
    assert fingerprints([tokenbox.Section.of(s).to_dict() for s in sections()]) == expected


def test_sections_may_be_any_iterable() -> None:
    given = sections()
    once = tokenbox.layout((s for s in given), 90, "code-aware")
    assert once.digest == tokenbox.layout(tuple(given), 90, "code-aware").digest


@pytest.mark.slow
@pytest.mark.skipif(find_spec("fastokens") is None, reason="fastokens (the extra fast) is not installed")
def test_the_engine_does_not_matter() -> None:
    engines = get("o200k_base", "tiktoken"), get("o200k_base", "fast")
    for budget in BUDGETS:
        slow, fast = (tokenbox.layout(sections(), budget, engine, cache=CountCache()) for engine in engines)
        assert slow.to_dict() == fast.to_dict()
