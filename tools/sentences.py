"""Print or check sentences of the documents, schemas, help texts, error messages and docstrings.

python tools/sentences.py --seed 7          print 100 random sentences, for a reviewer
python tools/sentences.py --check           fail if a sentence contains a phrase of ``AVOIDED``
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
NUMBER = 100
# Patterns, each with what to write instead.
AVOIDED = {
    r"\bso many (?:tokens|bytes|seconds|lines)\b": "a number: N tokens",
    r"\bso long ago\b": "how long ago",
    r"\b[Ww]hoever\b": "anyone who, or the subject that acts",
    r"\b[Nn]obody (?:says|has said|knows)\b": "is unknown",
    r"\banew\b": "again",
    r"\bhas (?:it|them) not\b": "does not have",
    r"\bis said (?:on|to)\b": "is reported on",
    r"\bsays it in short\b": "gives the short form",
    r"\bexactly at most\b": "at most",
    r"\bof which\b": "two sentences",
    r"\bNull: none\b": "Null: what null means",
    r"\b[Tt]here (?:is|are|was|were) none\b": "what is missing: no X has that name, or None",
    r"(?<!there )\bare none\b": "an error: X is not a Y",
    r"(?<!there )\bis none of\b": "is not one of",
    r"(?:^|[.] )Who (?!\w+\?)": "a subject that acts",
    r"\b(?:value|line|one) that is none\b": "that is not a X",
    r"\b(?:file|config|one|run) that is there\b": "an existing X",
    r"\bsays nothing of\b": "does not report",
    r"\bdecided otherwise\b": "decided differently",
}
_FENCE = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"(])")
_CODE = re.compile(r"`[^`]*`")


def documents() -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of the pages, without code blocks, as (file, text)."""
    names = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
    for path in (*(ROOT / name for name in names), *sorted((ROOT / "docs").glob("*.md"))):
        if path.name in ("api.md", "errors.md"):
            continue  # generated from docstrings
        text = _FENCE.sub("\n", path.read_text(encoding="utf-8"))
        for paragraph in re.split(r"\n\s*\n|\n(?=[*|#\d-])", text):
            yield str(path.relative_to(ROOT)), " ".join(paragraph.strip("*|# -").split())


def literals() -> Iterator[tuple[str, str]]:
    """Yield the string literals of several words in the sources, as (file and line, text)."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = str(path.relative_to(ROOT))
        parts_of_fstrings = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in parts_of_fstrings
            ):
                text = node.value
            else:
                continue
            for paragraph in re.split(r"\n\s*\n", text):
                words = " ".join(paragraph.split())
                if words.count(" ") > 3 and re.search(r"[a-z] [a-z]", words):  # more than a name
                    yield f"{name}:{node.lineno}", words


def descriptions() -> Iterator[tuple[str, str]]:
    """Yield the descriptions in the published schemas, as (file, text)."""
    for path in sorted((ROOT / "src").rglob("*.schema.json")):
        for text in re.findall(r'"description": "((?:[^"\\]|\\.)*)"', path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), text


@cache  # several tests ask, and it takes seconds
def sentences() -> list[tuple[str, str]]:
    """Return all sentences as (place, text), in the order of the files."""
    found = []
    for place, paragraph in (*documents(), *descriptions(), *literals()):
        found += [(place, part) for part in _SENTENCE.split(paragraph) if part.count(" ") > 3]
    return found


def hard_to_read() -> list[str]:
    """Return a line for each sentence that contains a phrase of ``AVOIDED``."""
    return [
        f"{place}: {text!r:.160}: write {better}"
        for place, text in sentences()
        for pattern, better in AVOIDED.items()
        if re.search(pattern, _CODE.sub("`x`", text))
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        wrong = hard_to_read()
        print("\n".join(wrong), file=sys.stderr)
        return int(bool(wrong))
    every = sentences()
    for place, text in sorted(random.Random(given.seed).sample(every, NUMBER)):  # noqa: S311  # not a secret
        print(f"{place}\n    {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
