"""Write the inputs of a code review to a folder: files of this Python's standard library.

    python examples/code_review/build.py FOLDER

The folder then contains ``review.toml`` (a layout document) and the files that it names: the rules, a diff,
outlines, sources, and the trace of a run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import tokenbox
from tokenbox.content.lenses import parse_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent
LIBRARY = Path(json.__file__).parents[1]
# Files and their priorities: first the changed file and its neighbours, then files that only resemble it.
SOURCES = {
    "json/decoder.py": 800,
    "json/scanner.py": 750,
    "json/encoder.py": 500,
    "json/__init__.py": 450,
    "json/tool.py": 400,
    "plistlib.py": 200,
    "csv.py": 150,
    "configparser.py": 100,
}
OUTLINED = ("json/decoder.py", "json/scanner.py", "json/encoder.py", "json/tool.py")

# The change under review: reject a negative start index.
BEFORE = """\
        try:
            obj, end = self.scan_once(s, idx)
"""
AFTER = """\
        if idx < 0:
            raise ValueError(f"idx must not be negative, but is {idx}")
        try:
            obj, end = self.scan_once(s, idx)
"""

# The traced program: it writes and reads a small document.
RUN = """\
import json, sys, trace
document = {"name": "tokenbox", "sizes": list(range(40)), "nested": {"deep": [{"x": i} for i in range(12)]}}
def run():
    text = json.dumps(document, indent=2)
    json.JSONDecoder().raw_decode(text, 0)
    json.scanner.py_make_scanner(json.JSONDecoder())(text, 0)
trace.Trace(count=0, trace=1, ignoredirs=[sys.prefix + "/none"]).runfunc(run)
"""

DOCUMENT = """\
# A code review as a layout document: sections for the model, and their priorities.
tokenizer = "o200k_base"
budget = 8000
policy = "degrade"  # smaller forms and truncation before drops

[defaults]
shrink = 1

[[sections]]
id = "rules"
content_file = "rules.md"
shrink = 0  # critical: never cut
role = "system"

[[sections]]
id = "diff"
content_file = "change.diff"
shrink = 0
role = "user"

[[sections]]
id = "outlines"
content_file = "outlines.txt"
priority = 900
role = "user"
"""

FILE_SECTION = """
[[sections]]
id = "{name}"
content_file = "{file}"
priority = {priority}
forms = ["outline('python')"]
cut = "line"
marker = "[... {{tokens}} tokens left out]\\n"
role = "user"
"""

LOG_SECTION = """
[[sections]]
id = "trace"
content_file = "trace.log"
priority = 600
forms = ["logs", "logs |> tail(lines=120)"]
keep = "tail"
cut = "line"
min = 200
role = "user"

[[sections]]
id = "question"
content = "Review the change. Is it correct, and what would it break?"
shrink = 0
role = "user"
"""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "rules.md", folder / "rules.md")
    (folder / "change.diff").write_text(change(), encoding="utf-8")
    (folder / "outlines.txt").write_text(outlines(OUTLINED), encoding="utf-8")
    (folder / "trace.log").write_text(run_trace(), encoding="utf-8")
    document = [DOCUMENT]
    for name, priority in SOURCES.items():
        file = name.replace("/", "-")
        shutil.copyfile(LIBRARY / name, folder / file)
        document.append(FILE_SECTION.format(name=name, file=file, priority=priority))
    document.append(LOG_SECTION)
    (folder / "review.toml").write_text("".join(document), encoding="utf-8")


def change() -> str:
    """Return the diff of ``json/decoder.py``."""
    text = (LIBRARY / "json/decoder.py").read_text(encoding="utf-8")
    if BEFORE not in text:
        sys.exit("json/decoder.py of this Python does not contain the lines that the example changes.")
    name = "Lib/json/decoder.py"
    lines, changed = text.splitlines(keepends=True), text.replace(BEFORE, AFTER, 1).splitlines(keepends=True)
    return "".join(unified_diff(lines, changed, f"a/{name}", f"b/{name}"))


def outlines(names: Iterable[str]) -> str:
    """Return the signatures of each file, below its name."""
    outline = parse_pipeline("outline('python')")
    tokenizer = tokenbox.tokenizers.get("o200k_base")
    parts = []
    for name in names:
        text = (LIBRARY / name).read_text(encoding="utf-8")
        parts.append(f"## Lib/{name}\n{outline.apply(text, tokenizer)}")
    return "\n".join(parts)


def run_trace() -> str:
    """Run the program; return a long log with each executed line."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
