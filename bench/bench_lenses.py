"""Lenses on real samples: tokens before and after, and which facts survive, checked without a model.

A fact is a piece of text that a reader of the sample needs: the failing test, the line of the error, a
changed line, a requested id. The samples are those of the tests, and sources of this Python. For comparison,
if installed: headroom-ai and on sources repomix ``--compress`` (bench/setup lenses).
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packers import PROGRAMS
from workers import rank_files

from tokenbox.content.lenses import parse_pipeline
from tokenbox.tokenizers import get

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "content" / "samples"
LIBRARY = Path(json.__file__).parents[1]
HEADROOM = Path(__file__).with_name(".venv-headroom") / "bin" / "python"
SOURCES = ("csv.py", "plistlib.py", "shlex.py", "configparser.py", "json/decoder.py")
# The sample, its lenses, and the facts that must survive.
CASES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "service.log",
        ("logs", "dedup_lines", "ends(80)"),
        (
            "slow query (4212 ms)",
            "order 90150 could not be charged",
            "order 90201 could not be charged",
            "order 90260 could not be charged",
            "KeyError: 'amuont'",
            "pool exhausted: 20 of 20 connections in use",
            "line 12, in charge",
            "shutting down",
        ),
    ),
    (
        "pytest.txt",
        ("test_report", "dedup_lines", "ends(30)"),
        (
            "test_cart.py::test_discount FAILED",
            "test_cart.py::TestCurrency::test_parse FAILED",
            "KeyError: 'usd'",
            "assert price * (100 - rate) / 100 == 69.0",
            "2 failed",
        ),
    ),
    (
        "traceback.txt",
        ("traceback", "ends(12)"),
        (
            "ValueError: invalid literal for int() with base 10: 'INV-2041'",
            "line 9, in __init__",
            "line 7, in hook",
            "line 5, in parse",
            "line 13, in work",
            "line 11, in handle",
            "Previous line repeated 27 more times",
        ),
    ),
    ("change.diff", ("diff", "diff(0)", "ends(80)"), ()),  # facts: every changed line outside of lock files
    (
        "issues.json",
        ('json_table("id, title, state, user.login")', "json_shorten(text=60, items=5)", "json_minify"),
        tuple(f"Invoice {4000 + i} is not sent" for i in range(30)),
    ),
    (
        "pytest-v.txt",
        ("test_report", "ends(40)"),
        (
            "test_zone_three FAILED",
            "KeyError: 3",
            "test_setup ERROR",
            "no database",
            "test_slow SKIPPED",
            "charging order 7",
            "2 orders failed",
            "4 failed, 41 passed",
        ),
    ),
    (
        "cargo.txt",
        ("test_report", "test_report |> traceback", "ends(30)"),
        (
            "zone_two ... FAILED",
            "zone_three ... FAILED",
            "left: 10",
            "right: 11",
            'value: "no zone 3"',
            "src/lib.rs:13:54",
            "26 passed; 2 failed; 1 ignored",
        ),
    ),
    (
        "node.tap",
        ("test_report", "ends(40)"),
        (
            "not ok 31 - knows zone three",
            "error: 'no zone 3'",
            "not ok 32 - rounds down",
            "cart.test.mjs:7:36",
            "# fail 2",
        ),
    ),
    (
        "panic.rust.txt",
        ("traceback", "ends(20)"),
        ('price of order 7: "no zone 9"', "src/main.rs:1:55", "shop::main", "src/main.rs:2:28"),
    ),
    (
        "exception.java.txt",
        ("traceback", "ends(12)"),
        (
            "invoice INV-2041 has no number",
            "App.parse(App.java:3)",
            "App.main(App.java:5)",
            'For input string: "INV-2041"',
        ),
    ),
    ("nginx.log", ("logs", "ends(40)"), ('/api/pay/8812 HTTP/1.1" 500',)),
    (
        "journal.log",
        ("logs", "ends(40)"),
        ("Out of memory: Killed process 4411 (java)", "status=9/KILL", "Failed with result 'oom-kill'"),
    ),
    (
        "renames.diff",
        ("diff", "ends(30)"),
        (
            "new mode 100755",
            "rename to src/new/m14.py",
            "-    def raw_decode(self, s, idx=0):",
            "+    def raw_decode(self, text, idx=0):",
            "-X = 7",
        ),
    ),
    (
        "page.html",
        ("html_to_text",),
        ("zone 3", "9.40", "4.20", "6.10", "https://pay.example.com", "if zone == 3:", "Contact us."),
    ),
)


def run(*, quick: bool) -> dict[str, Any]:
    tokenizer = get("o200k_base")
    rows: list[dict[str, Any]] = []
    for name, lenses, facts in CASES:
        text = (SAMPLES / name).read_text(encoding="utf-8")
        wanted = facts or tuple(changed_lines(text))
        for lens in lenses:
            less = parse_pipeline(lens).apply(text, tokenizer)
            rows.append(row(name, f"`{lens}`", text, less, wanted))
        rows += [row(name, "headroom-ai", text, less, wanted) for less in headroom(text)]
    for name in SOURCES:
        text = (LIBRARY / name).read_text(encoding="utf-8")
        names = tuple(dict.fromkeys(re.findall(r"^ *(?:class|def) (\w+)", text, re.MULTILINE)))
        outline = parse_pipeline('outline("python")').apply(text, tokenizer)
        rows.append(row(name, '`outline("python")`', text, outline, names))
        compressed = None if quick else repomix(name, text)
        if compressed is not None:
            rows.append(row(name, "repomix --compress", text, compressed, names))
        rows += [row(name, "headroom-ai", text, less, names) for less in headroom(text)]
    python = platform.python_version()
    return {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "python": python, "rows": rows}


def changed_lines(diff: str) -> list[str]:
    own = diff[: diff.index("diff --git a/uv.lock")]
    return [line for line in own.splitlines() if re.match(r"[+-](?![+-]{2} ).", line)]


def row(sample: str, lens: str, text: str, less: str, facts: tuple[str, ...]) -> dict[str, Any]:
    count = get("o200k_base").count
    kept = sum(fact in less for fact in facts)
    return {
        "sample": sample,
        "lens": lens,
        "before": count(text),
        "after": count(less),
        "facts": len(facts),
        "kept": kept,
    }


def headroom(text: str) -> list[str]:
    """Compress a tool result with headroom-ai; return no result if it is not installed."""
    if not HEADROOM.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as home:
        done = subprocess.run(
            [HEADROOM, Path(__file__).with_name("compress_with_headroom.py"), "What is wrong here?"],
            input=text,
            capture_output=True,
            check=True,
            encoding="utf-8",
            env={**os.environ, "HOME": home, "TIKTOKEN_CACHE_DIR": str(rank_files())},
        )
    return [done.stdout]


def repomix(name: str, text: str) -> str | None:
    """Compress one file with repomix, without its header; return None if it is not installed."""
    program = next(program for program in PROGRAMS if program.name == "repomix --compress")
    if not program.executable.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="tokenbox-bench-") as folder:
        corpus, output = Path(folder, "corpus"), Path(folder, "out.xml")
        corpus.mkdir()
        (corpus / Path(name).name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            program.command(corpus, output, None), capture_output=True, check=False, cwd=corpus
        )
        if done.returncode or not output.exists():
            return None
        found = re.search(r"<file path=[^>]*>\n(.*?)\n</file>", output.read_text(encoding="utf-8"), re.DOTALL)
        return found[1] if found else None


def table(results: dict[str, Any]) -> str:
    outlines = [one for one in results["rows"] if one["sample"] in SOURCES and "outline" in one["lens"]]
    lines = [
        "# Lenses on real samples",
        "",
        f"`python bench/run.py lenses`, {results['when']}. Tokens of o200k_base.",
        "",
        "A fact is a piece of text that must still be there: the failing test, the line of the error, each",
        "changed line, the ids asked for, each class and function of a source.",
        "`ends` is what cutting the middle out does. headroom-ai is given the sample as the result of a tool",
        "call after a question, with its defaults; it leaves what looks like an error as it is.",
        "",
        (
            f"With `outline` the {len(outlines)} sources are {sum(one['after'] for one in outlines):,} "
            f"tokens of {sum(one['before'] for one in outlines):,}, without what joins them. They are those "
            f"of Python {results['python']}: of another version, and of other files, the sum is another."
        ),
        "",
        "| sample | made smaller by | before | after | | facts kept |",
        "|---|---|---|---|---|---|",
    ]
    for one in results["rows"]:
        share = 100 * one["after"] / one["before"]
        lines.append(
            f"| {one['sample']} | {one['lens']} | {one['before']:,} | {one['after']:,} | {share:.0f} % "
            f"| {one['kept']} of {one['facts']} |"
        )
    return "\n".join(lines) + "\n"
