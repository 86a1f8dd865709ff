"""Lenses on what other tools print: the facts stay, what repeats is counted. One case for each rule."""

from __future__ import annotations

import pytest

from tests.content.lensed import seen

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
    "a commit after a lock file": (
        "diff",
        f"commit 2\n\n    two\n\n{LOCKED}@@ -1,9 +1,9 @@\n{VERSIONS}\ncommit 1\n\n    because of one\n",
        "[generated file: 9 removed and 9 added lines left out]\n\ncommit 1\n\n    because of one\n",
    ),
    "a report before a diff": (
        "diff",
        f"{30 * '='} FAILURES {30 * '='}\nE   KeyError\n{LOCKED}@@ -1,9 +1,9 @@\n{VERSIONS}",
        " FAILURES ",
    ),
    "a small lock file": ("diff", f"{LOCKED}@@ -1 +1 @@\n-a\n+b\n", "@@ -1 +1 @@\n-a\n+b\n"),
    "a mark that counts more lines than there are": (
        "diff(0)",
        f"--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@ [{'9' * 5_000} context lines left out]\n {'c' * 60}\n-a\n",
        "99 context lines left out] [1 context line left out]\n-a\n",
    ),
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
    "a fence in a fence": (
        'markdown_sections("Usage")',
        "# Usage\n\n````\n```\n# no heading\n```\n````\n\nNext.\n\nThe last words of the named section.\n",
        "````\n\nNext.\n\nThe last words of the named section.\n",
    ),
    "code as the first paragraph": (
        "markdown_sections",
        "# A\n\n```\na\n\nb\n```\n\nThe next paragraph is left out: long.\n\nAnd so is this.\n\n# B\n",
        "```\na\n\nb\n```\n\n[... 2 lines left out ...]\n\n# B\n",
    ),
    "calls with other arguments": (
        "traceback",
        f"PHP Fatal error:  Uncaught Exception: x\nStack trace:\n{PHP}",
        "#0 /app/src/A.php(12): A->run(0)\n[... 5 repeated frames left out ...]\n",
    ),
    "arguments in gdb": (
        "traceback",
        "".join(f"#{n}  0x55 in rec (n={n}) at c.c:4\n" for n in range(6)) + "#6  0x5 in main () at c.c:5\n",
        "#0  0x55 in rec (n=0) at c.c:4\n[... 5 repeated frames left out ...]\n#6  0x5 in main () at c.c:5\n",
    ),
    "a hit of a search": (
        'select("zone three", lines=6)',
        "".join(f"{n}. Page {n}\nex.org/{n}\nWords on {n}.\n\n" for n in range(9)).replace(
            "Words on 7", "Zone three"
        ),
        "left out ...]\n7. Page 7\nex.org/7\nZone three.\n\n[",
    ),
    "lines around a match": (
        'select("needle", lines=4)',
        "".join(f"line {n}\n" for n in range(20)) + "needle\n" + "last\n" * 20,
        "[... 18 lines left out ...]\nline 18\nline 19\nneedle\nlast\n[",
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
    assert fact in seen(spelling, text)
    assert len(seen(spelling, text)) <= len(text)


def test_a_failure_is_not_merged_with_what_went_well() -> None:
    text = SERVED + "10:00:01 GET /a 503 1 ms\n" + SERVED
    assert "503" in seen("logs(0)", text)
    assert "503" not in seen("logs(0)", text.replace("GET", "got"))  # a number like any other


def test_merged_lines_of_code_stay_code() -> None:
    text = "[tool]\n" * 3 + "".join(f"a line of words {n % 10}\n" for n in range(20))
    less = seen("dedup_lines", text)
    assert less == text.replace("[tool]\n" * 3, "[tool] [x3]\n")
    assert seen("dedup_lines", less) == less


def test_a_page_keeps_its_powers_and_a_readme_its_lines() -> None:
    pytest.importorskip("markdownify", reason="the extra html is not installed")
    assert seen("html_to_text", "<p>10<sup>6</sup> parcels</p>") == "10^6^ parcels\n"
    readme = '<p align="center"><img src="a.png"></p>\n\n# Shop\n\nOne\nline.\n\n```sh\nmake\n```\n'
    assert seen("html_to_text", readme) == readme
    assert seen("html_to_text", "<!--<p>never closed\n") == "<!--<p>never closed\n"
    assert seen("html_to_text", "<p>" + "_" * 30 + "</p>") == "<p>" + "_" * 30 + "</p>"


def test_tags_of_a_build_log_are_no_structure() -> None:
    assert seen("dedup_lines", "[INFO] a\n" * 3 + "[INFO] b\n") == "[INFO] a [x3]\n[INFO] b\n"


def test_the_first_of_equal_lines_says_whether_they_are_merged() -> None:
    """The last line is shorter, without its end: it alone was merged, and its count said three."""
    text = "\r``\r\r``\r\r``"
    assert seen("dedup_lines", text) == text


def test_library_frames_are_counted_in_the_first_of_repeated_frames_too() -> None:
    library = '  File "/usr/lib/python3.11/a.py", line 3, in f\n    x()\n'
    less = seen("traceback", f"{library}\tat a.b.C(D.java:3)\n" * 2)
    assert less == (
        "  [... 1 library frame left out ...]\n\tat a.b.C(D.java:3)\n  [... 2 repeated frames left out ...]\n"
    )
    assert seen("traceback", less) == less


def test_a_table_that_is_not_shorter_is_not_made() -> None:
    assert seen("json_table", '[{"a":1}]') == '[{"a":1}]'


def test_a_deep_object_needs_no_stack() -> None:
    text = '{"a":' * 50_000 + '[{"x":1}]' + "}" * 50_000
    assert seen("json_table", text) == text
