"""Recall of the code below a comment, with the first sentence of the comment as the query, in any language.

    python bench/selection/comments.py CLONES [--per 8] [--selectors "tokenbox,bm25 chunks"]

``CLONES`` is a folder of clones, as for ``mine.py``. A comment of at least six words above code of three
lines or more is a task: the comment is removed from the packed tree, and the gold is the code below it, up to
a blank line and at most eight lines. Tests, docs, examples and third-party code give no tasks.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from commits import clone_of
from measuring import Recalls
from score import lines_of
from trees import files_of, source_of

LEAST_WORDS, LONGEST_QUERY = 6, 300
LEAST_LINES, MOST_LINES = 3, 8
PER_FILE, LARGEST = 2, 300_000
_SKIPPED = re.compile(
    r"(?i)(?:^|/)(?:tests?|specs?|docs?|man|examples?|samples?|vendor|third_party|node_modules|\.[^/]*)(?:/|$)"
    r"|tests?\.\w+$|_spec\.\w+$|\.(?:md|rmd|rst|txt|json|ya?ml|toml|html|css|svg|lock|org|adoc|xml|csv|sh|cfg|ini)$"
    r"|(?:Makefile|CMakeLists\.txt|Dockerfile)$"
)
_LINE = re.compile(r"\s*(//+|#+'?|--+(?: \|)?|%+|;+|!+>?)(?:\s+(.*)|)$")
_ENDS = {"/**": "*/", "(**": "*)", "{-": "-}", "/++": "+/"}
_BLOCK = re.compile(r"\s*(/\*\*|\(\*\*|\{-|/\+\+)")
_MARGIN = re.compile(r"^\s*(?:/\*\*|\(\*\*|\{-\s*\|?|/\+\+|\*(?!/))?\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|[@\\](?:param|return|brief)")
_TAG = re.compile(r"<[^>]+>")
# A line that may begin something: a signature, an assignment, a block.
_CODE = re.compile(r"[({=:]|->|\b(?:do|def|sub|proc|function)\b")


class Task(NamedTuple):
    """Lines ``start`` up to ``begin`` are the comment, ``begin`` up to ``end`` the code that is wanted."""

    path: str
    query: str
    start: int
    begin: int
    end: int


def comment_at(lines: Sequence[str], n: int) -> tuple[str, int]:
    """Return the text of the comment that begins at line ``n``, and the line after it; ``n`` if none does."""
    texts: list[str] = []
    if block := _BLOCK.match(lines[n]):
        closing = _ENDS[block[1]]
        while n < len(lines):
            texts.append(_MARGIN.sub("", lines[n]).replace(closing, ""))
            n += 1
            if closing in lines[n - 1]:
                break
    elif first := _LINE.match(lines[n]):
        while n < len(lines) and (line := _LINE.match(lines[n])) and line[1] == first[1]:
            texts.append(line[2] or "")
            n += 1
    return _TAG.sub("", " ".join(texts)).strip(), n


def tasks_in(path: str, lines: Sequence[str]) -> Iterator[Task]:
    """Yield the commented code of a file."""
    n = 0
    while n < len(lines):
        text, begin = comment_at(lines, n)
        end = begin
        while end < min(len(lines), begin + MOST_LINES) and lines[end].strip():
            end += 1
        query = _SENTENCE_END.split(text)[0].strip()
        is_long_enough = len(query.split()) >= LEAST_WORDS and end - begin >= LEAST_LINES
        if begin > n and is_long_enough and len(query) <= LONGEST_QUERY and _CODE.search(lines[begin]):
            yield Task(path, query, n, begin, end)
        n = max(begin, n + 1)


def tasks_of(files: Mapping[str, bytes], number: int) -> list[Task]:
    """Return tasks of a tree, chosen at random, at most ``PER_FILE`` of a file."""
    found: list[Task] = []
    for path, data in files.items():
        if not _SKIPPED.search(path) and len(data) <= LARGEST and b"\0" not in data:
            found += tasks_in(path, data.decode("utf-8", "replace").split("\n"))
    random.Random(0).shuffle(found)
    often: Counter[str] = Counter()
    chosen = []
    for task in found:
        if len(chosen) < number and often[task.path] < PER_FILE:
            often[task.path] += 1
            chosen.append(task)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--per", type=int, default=8)
    parser.add_argument("--selectors", default="tokenbox,bm25 chunks")
    parser.add_argument("--budgets", default="2000,8000,32000")
    options = parser.parse_args()
    recalls = Recalls([int(budget) for budget in options.budgets.split(",")])
    rows: dict[str, list[list[float]]] = {name: [] for name in options.selectors.split(",")}
    for folder in sorted(options.clones.iterdir()):
        files = files_of(clone_of(options.clones, folder.name), "HEAD")
        tasks = tasks_of(files, options.per)
        means = []
        for name, found in rows.items():
            for path, query, start, begin, end in tasks:
                lines = files[path].decode("utf-8", "replace").split("\n")
                source = source_of({**files, path: "\n".join(lines[:start] + lines[begin:]).encode()})
                found.append(recalls.of(name, source, query, [lines_of("\n".join(lines[begin:end]))]))
            own = found[len(found) - len(tasks) :]
            means.append(" / ".join(f"{sum(column) / len(own):.2f}" for column in zip(*own, strict=True)))
        print(f"| {folder.name.replace('+', '/')} | {len(tasks)} | {' | '.join(means)} |", flush=True)
    for name, found in rows.items():
        recalls.show(f"{name}: {len(found)} comments", found)


if __name__ == "__main__":
    main()
