"""Lenses on what other tools print: the facts stay, what repeats is counted. One case for each rule."""

from __future__ import annotations

import pytest

from tokenbox.content.lenses import parse_pipeline
from tokenbox.tokenizers.utf8 import Utf8Bytes


def shown(spelling: str, text: str) -> str:
    return parse_pipeline(spelling).apply(text, Utf8Bytes())


SERVED = "10:00:00 GET /a 200 1 ms\n" * 5
LOCKED = (
    "diff --git a/package-lock.json b/package-lock.json\n--- a/package-lock.json\n+++ b/package-lock.json\n"
)
VERSIONS = "".join(f'-  "version": "1.{n}.0"\n+  "version": "2.{n}.0"\n' for n in range(9))
MERGED = "".join(
    f'- "version": "1.{n}.0"\n -"version": "3.{n}.0"\n++"version": "2.{n}.0"\n' for n in range(9)
)
NESTED = "".join(f'{{"id":{n},"user":{{"name":"n{n}","mail":"n{n}@example.org"}}}},' for n in range(6))
TAGGED = "".join(f'{{"id":{n},"name":"n{n}","tags":[{{"key":"k"}}]}},' for n in range(6))
PAGE = (
    "Title\n=====\n\nFirst.\n\nSecond, which is left out.\n\nUsage\n-----\n\n"
    "````\n```\n# no heading\n```\n````\n\nEnd.\n\n# Other\n\nFirst.\n\n"
    "Second, which is left out as it is long.\n"
)
PHP = "".join(f"#{n} /app/src/A.php(12): A->run({n})\n" for n in range(6))
PANIC = (
    "goroutine 1 [running]:\nmain.a(...)\n\t/app/a.go:1 +0x1 fp=0xc0 sp=0xc0 pc=0x1\n"
    "runtime.main()\n\t/usr/local/go/src/runtime/proc.go:250 +0x207 fp=0xc1 sp=0xc2 pc=0x4\n"
    "runtime.goexit()\n\t/usr/local/go/src/runtime/asm_amd64.s:1594 +0x1 fp=0xc3 sp=0xc4 pc=0x5\n"
)

CASES: dict[str, tuple[str, str, str]] = {
    # A status that stands alone, in a line with the method of a request.
    "503 alone": ("logs(0)", SERVED + "10:00:01 GET /a 503 1 ms\n", "503 1 ms"),
    "404 alone": ("logs(0)", SERVED + "10:00:01 GET /a 404 1 ms\n", "404 1 ms"),
    "a code as JSON": ("logs(0)", '{"code":"200"}\n' * 5 + '{"code":"503"}\n', '{"code":"503"}\n'),
    "a number of failures": ("logs(0)", "10:00:00 failed=0\n" * 5 + "10:00:01 failed=2\n", "failed=2"),
    "levels of journalctl": ("logs(0)", '{"PRIORITY":"6"}\n' * 5 + '{"PRIORITY":"3"}\n', '"3"'),
    "a lock file": (
        "diff",
        f"{LOCKED}@@ -1,9 +1,9 @@\n{VERSIONS}",
        f"{LOCKED}[generated file: 9 removed and 9 added lines left out]\n",
    ),
    "a merged lock file": (
        "diff",
        f"{LOCKED}@@@ -1,9 -1,9 +1,9 @@@\n{MERGED}",
        "[generated file: 18 removed and 9 added lines left out]",
    ),
    "a small lock file": ("diff", f"{LOCKED}@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@\n-a\n+b\n"),
    "tables of TOML": ("dedup_lines", "[tool.a]\nx = 1\n[tool.b]\nx = 1\n", "[tool.b]\nx = 1\n"),
    "steps of a Dockerfile": (
        "dedup_lines",
        "FROM a\nRUN make\nFROM b\nRUN make\n",
        "FROM b\nRUN make\n",
    ),
    "rows inside objects": (
        "json_table",
        f'{{"data":{{"items":[{NESTED[:-1]}],"next":"x"}},"total":6}}',
        '{"data":{"next":"x"},"total":6}\n[6 rows]\nid\tuser.name\tuser.mail\n0\tn0\tn0@example.org\n',
    ),
    "a field inside a list": (
        'json_table("tags.key")',
        f"[{TAGGED[:-1]}]",
        '[6 rows, fields left out: id, name]\ntags\n[{"key":"k"}]\n',
    ),
    "underlined headings": (
        'markdown_sections("Usage")',
        PAGE,
        "Title\n=====\n\nFirst.\n\n[... 1 line left out ...]\n",
    ),
    "fences of other lengths": (
        'markdown_sections("Usage")',
        PAGE,
        "# no heading\n```\n````\n\nEnd.\n\n# Other\n\nFirst.\n\n[... 1 line left out ...]\n",
    ),
    "calls with other arguments": (
        "traceback",
        f"PHP Fatal error:  Uncaught Exception: x\nStack trace:\n{PHP}",
        "#0 /app/src/A.php(12): A->run(0)\n[... 5 repeated frames left out ...]\n",
    ),
    "registers of Go": ("traceback", PANIC, "pc=0x1\n[... 1 library frame left out ...]\n"),
    "passed tests in XML": (
        "test_report",
        '<testcase name="a"></testcase>\n' * 5 + "<testcase name='b'><failure>no</failure></testcase>\n",
        "[... 5 lines of passed tests left out ...]\n<testcase name='b'><failure>no",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_facts_stay(case: str) -> None:
    spelling, text, fact = CASES[case]
    assert fact in shown(spelling, text)
    assert len(shown(spelling, text)) <= len(text)


def test_a_failure_is_not_merged_with_what_went_well() -> None:
    text = SERVED + "10:00:01 GET /a 503 1 ms\n" + SERVED
    assert "503" in shown("logs(0)", text)
    assert "503" not in shown("logs(0)", text.replace("GET", "got"))  # a number like any other


def test_tags_of_a_build_log_are_no_structure() -> None:
    assert shown("dedup_lines", "[INFO] a\n" * 3 + "[INFO] b\n") == "[INFO] a [x3]\n[INFO] b\n"


def test_a_table_that_is_not_shorter_is_not_made() -> None:
    assert shown("json_table", '[{"a":1}]') == '[{"a":1}]'


def test_a_deep_object_needs_no_stack() -> None:
    text = '{"a":' * 50_000 + '[{"x":1}]' + "}" * 50_000
    assert shown("json_table", text) == text
