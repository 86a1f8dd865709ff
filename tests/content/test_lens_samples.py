"""What tools write, seen through the lenses for it: less of it, the facts still there, omissions counted."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.content.lensed import seen

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def test_a_log_is_a_tenth_and_keeps_its_errors() -> None:
    log = sample("service.log")
    less = seen("logs", log)
    assert len(less) < len(log) / 5
    for fact in ("slow query (4212 ms)", "pool exhausted: 20 of 20", "order 90150 could not be charged"):
        assert fact in less
    assert less.count("KeyError: 'field'") == 0
    assert "KeyError: 'amuont'" in less
    # What stands around the first error is there, also where its patterns came before.
    lines = log.splitlines()
    error = next(i for i, line in enumerate(lines) if "90150" in line)
    assert lines[error - 1] in less
    assert lines[error - 2] in less


def test_every_line_of_a_log_is_shown_or_counted() -> None:
    log = sample("service.log")
    less = seen("logs", log)
    records = [line for line in less.splitlines() if line.startswith("2026-")]
    counts = [
        int(m[1].replace(",", "")) if (m := re.search(r" \[x([\d,]+)\]$", line)) else 1 for line in records
    ]
    assert sum(counts) == sum(line.startswith("2026-") for line in log.splitlines())


def test_two_stack_traces_are_not_one() -> None:
    log = "10:00:00 ERROR x\n  at a\n10:00:01 ERROR x\n  at b\n" * 5
    assert "at a" in seen("logs(context=0)", log)
    assert "at b" in seen("logs(context=0)", log)


def test_errors_are_not_counted_with_lines_that_differ_in_the_status_only() -> None:
    requests = [
        f'10.0.0.{i} - [23/Nov/2026:14:00:{i:02d}] "GET /x" {200 + 300 * (i % 5 == 0)} {i}\n'
        for i in range(60)
    ]
    less = seen("logs", "".join(requests))
    assert '" 500 0 [x10]\n' in less
    assert less.count('" 500') == 3
    rows = [
        f'{{"time": "2026-11-23T14:00:{i:02d}Z", "status": {503 if i == 30 else 200}}}\n' for i in range(60)
    ]
    assert rows[30] in seen("logs", "".join(rows))
    pods = [f"14:00:{i:02d} started pod web-{'bcdfg'[i % 5] * 5}\n" for i in range(60)]
    assert seen("logs", "".join(pods)) == "14:00:00 started pod web-bbbbb [x60]\n"


def test_a_diff_keeps_every_changed_line_and_counts_the_rest() -> None:
    diff = sample("change.diff")
    less = seen("diff", diff)
    own = diff[: diff.index("diff --git a/uv.lock")]
    changed = [line for line in own.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
    assert [line for line in less.splitlines() if re.match(r"[+-](?![+-]{2} )", line)] == changed
    assert "[generated file: 40 removed and 40 added lines left out]" in less
    assert "pkg7" not in less
    assert "rename from docs/old.md\nrename to docs/new.md\n" in less
    context = sum(line.startswith(" ") for line in own.splitlines())
    shown = sum(line.startswith(" ") for line in less.splitlines())
    left_out = sum(map(int, re.findall(r"\[(\d+) context lines? left out\]", less)))
    assert shown + left_out == context
    assert shown < context


@pytest.mark.parametrize("context", [0, 1, 2])
def test_a_smaller_diff_still_applies(tmp_path: Path, context: int) -> None:
    old = "".join(f"line {i}\n" for i in range(60))
    new = (
        old.replace("line 7\n", "")
        .replace("line 30\n", "line thirty\n")
        .replace("line 33\n", "line 33\nmore\n")
    )
    for folder, text in (("old", old), ("new", new)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text(text)
    made = subprocess.run(
        ["git", "diff", "--no-index", "-U12", "old/file", "new/file"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    less = seen(f"diff({context})", made.stdout)
    assert len(less) < len(made.stdout)
    apply = ["git", "apply", "-p2", "--unidiff-zero"]
    subprocess.run(apply, cwd=tmp_path / "old", input=less, check=True, capture_output=True, text=True)
    assert (tmp_path / "old" / "file").read_text() == new


def test_a_merge_has_a_range_for_each_parent() -> None:
    less = seen("diff", sample("merge.diff"))
    assert "@@@ -23,3 -22,3 +23,4 @@@ def f6(x) [4 context lines left out]\n  def f7(x):\n" in less
    assert "@@@ -178,1 -177,4 +179,1 @@@ def f57(x) [2 context lines left out]\n  \n -def f59(x):\n" in less


def test_a_hunk_that_is_not_as_its_header_says_stays() -> None:
    """A diff of words has no signs; its changes may be far from a line that seems to have one."""
    words = "--- a\n+++ b\n@@ -1,6 +1,6 @@\n {+two+}\n x\n x\n x\n x\n- item [-one-]{+two+}\n"
    assert seen("diff", words) == words


def test_a_traceback_keeps_own_frames_and_counts_those_of_libraries() -> None:
    less = seen("traceback", sample("traceback.txt"))
    assert "asyncio/runners.py" not in less
    assert "[... 3 library frames left out ...]" in less
    assert less.count("line 4, in parse") == 1
    assert "[... 2 repeated frames left out ...]" in less
    for fact in ('deep.py", line 11, in handle', "line 9, in __init__", "ValueError: invalid literal"):
        assert fact in less
    assert "runners.py" in seen('traceback("asyncio")', sample("traceback.txt"))


JAVA = """\
java.lang.IllegalStateException: order 17 has no customer
\tat com.shop.Orders.customer(Orders.java:88)
\tat com.shop.Orders.send(Orders.java:41)
\tat org.springframework.aop.Proxy.invoke(Proxy.java:1)
\tat org.springframework.web.Servlet.service(Servlet.java:2)
\tat java.base/java.lang.Thread.run(Thread.java:833)
Caused by: java.lang.NullPointerException
\tat com.shop.Customers.find(Customers.java:12)
"""


def test_a_traceback_of_java() -> None:
    less = seen("traceback", JAVA)
    assert "springframework" not in less
    assert "\t[... 2 library frames left out ...]\n" in less
    assert all(
        fact in less for fact in ("Orders.java:88", "Orders.java:41", "Customers.java:12", "Caused by")
    )


NODE = """\
TypeError: Cannot read properties of undefined (reading 'zone')
    at tariff (/srv/shop/tariff.js:12:9)
    at Layer.handle (/srv/shop/node_modules/express/lib/router/layer.js:95:5)
    at next (/srv/shop/node_modules/express/lib/router/route.js:144:13)
    at main (/srv/shop/index.js:3:1)
    at node:internal/main/run_main_module:23:47
"""


def test_a_traceback_of_javascript() -> None:
    less = seen("traceback", NODE)
    assert "express" not in less
    assert "    [... 2 library frames left out ...]\n" in less
    assert "tariff.js:12:9" in less
    assert "index.js:3:1" in less


@pytest.mark.parametrize(
    ("own", "library"),
    [
        ("   at Shop.Price(Int32 zone) in /srv/Cart.cs:line 4", "   at System.Linq.Enumerable.Sum(Int32 N)"),
        (
            "\tfrom /srv/lib/cart.rb:4:in `price'",
            "\tfrom /usr/lib/ruby/gems/3.2.0/gems/rack/a.rb:N:in `call'",
        ),
        ("#7 /srv/src/Cart.php(44): Shop->price()", "#8 /srv/vendor/a/b/Pipeline.php(N): array_map(1)"),
        ("    (shop 0.1.0) lib/cart.ex:4: Cart.price/1", "    (elixir 1.15.7) lib/enum.ex:N: Enum.map/2"),
        ("#0  0x55 in price (zone=3) at cart.c:44", "#1  0x7fff in qsortN () from /lib/x86_64/libc.so.6"),
        ("    #0 0x55 in price /srv/cart.c:44", "    #1 0x7f in start_main ../sysdeps/nptl/start.h:N"),
        ("#0      price (package:shop/cart.dart:44:3)", "#1      run (dart:async/zone.dart:N:13)"),
        ("price@https://shop.example/cart.js:44:12", "map@https://shop.example/node_modules/a.js:N:2"),
        ("\tat shop.CartKt.price(Cart.kt:44)", "\tat kotlinx.coroutines.Task.run(DispatchedTask.kt:N)"),
    ],
)
def test_frames_of_other_languages(own: str, library: str) -> None:
    note = f"{library[: len(library) - len(library.lstrip())]}[... 2 library frames left out ...]\n"
    libraries = [library.replace("N", str(n)) for n in (1, 2)]
    less = seen("traceback", "\n".join([own, *libraries, own, ""]))
    assert less == f"{own}\n{note}{own}\n"


def test_a_report_keeps_failures_in_full_and_counts_passes() -> None:
    report = sample("pytest.txt")
    less = seen("test_report", report)
    assert "PASSED" not in less
    assert "[... 40 lines of passed tests left out ...]" in less
    for fact in (
        "test_discount FAILED",
        "KeyError: 'usd'",
        "assert price * (100 - rate) / 100 == 69.0",
        "2 failed",
    ):
        assert fact in less


def test_the_words_of_a_passing_test_stay() -> None:
    """A line above a passed test is a title only if the test is indented deeper."""
    report = "  Cart\n    debug: total is 10\n    ✓ adds\n" + "    ✓ pays\n" * 9
    assert "  Cart\n    debug: total is 10\n" in seen("test_report", report)
    groups = "  Cart\n    of two\n      ✓ adds\n\n" * 9
    failed = "  Tariff\n    ✓ zone one\n    1) zone three\n"
    less = seen("test_report", groups + failed)
    assert less == f"[... 35 lines of passed tests left out ...]\n\n{failed}"


def _go(action: str, package: str, more: str = "") -> str:
    return f'{{"Time":"1","Action":"{action}","Package":"{package}","Test":"TestA"{more}}}\n'


@pytest.mark.parametrize(
    ("passed", "failed"),
    [
        ("test a::b ... ok\n", "test a::c ... FAILED\n"),
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n", "--- FAIL: TestB (0.1s)\n"),
        ("ok  \tshop/cart\t0.01s\n", "FAIL\tshop/pay\t0.2s\n"),
        ("ok 1 - adds\n", "not ok 2 - pays\n"),
        ("ok 1 - adds\n", "ok 2 - pays # SKIP no network\n"),
        (
            "# Subtest: adds\nok 1 - adds\n  ---\n  duration_ms: 1\n  ...\n",
            "# Subtest: pays\nnot ok 2 - pays\n",
        ),
        ("  ✓ adds (2 ms)\n", "  ✕ pays (5 ms)\n"),
        ("test_a (t.A) ... ok\n", "test_b (t.A) ... FAIL\n"),
        ("tests/test_a.py .....  [ 50%]\n", "tests/test_b.py ..F.. [100%]\n"),
        ("............ [ 50%]\n", "....F....... [100%]\n"),
        (
            "t.py::test_a[1] \n[gw1] [  2%] PASSED t.py::test_a[1] \n",
            "t.py::test_b \n[gw0] [ 50%] FAILED t.py::test_b \n",
        ),
        (
            "[INFO] Tests run: 7, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s\n",
            "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s\n",
        ),
        ("Cart > adds() PASSED\n", "Cart > pays() FAILED\n"),
        ("  Passed Cart.Adds [< 1 ms]\n", "  Failed Cart.Pays [12 ms]\n"),
        ("[ RUN      ] Cart.Adds\n[       OK ] Cart.Adds (0 ms)\n", "[  FAILED  ] Cart.Pays (1 ms)\n"),
        ("        PASS [   0.001s] shop adds\n", "        FAIL [   0.012s] shop pays\n"),
        (
            "Test Case '-[Cart adds]' started.\nTest Case '-[Cart adds]' passed (0.001 seconds).\n",
            "Test Case '-[Cart pays]' started.\nTest Case '-[Cart pays]' failed (0.002 seconds).\n",
        ),
        (
            _go("run", "a") + _go("pass", "a"),
            _go("run", "b") + _go("output", "b", ',"Output":"no zone 3\\n"') + _go("fail", "b"),
        ),
        (f"{61 * '.'}  61 / 120 ( 50%)\n", f"{20 * '.'}F{40 * '.'} 120 / 120 (100%)\n"),
        (f"{40 * '.'}\n", f"{20 * '.'}F{20 * '.'}\n"),
        ("test_a (t.A.test_a)\nAdds. ... ok\n", "test_b (t.A.test_b)\nPays. ... FAIL\n"),
        ("adds ... ok (2ms)\n", "pays ... FAILED (2ms)\n"),
        ("Cart#test_adds = 0.00 s = .\n", "Cart#test_pays = 0.01 s = F\n"),
        ("//shop:adds   (cached) PASSED in 0.1s\n", "//shop:pays   FAILED in 1.2s\n"),
        ("\x1b[32m ✓ adds\x1b[0m\n", "\x1b[31m ✕ pays\x1b[0m\n"),
        ('<testcase name="a" time="0.001" />\n', '<testcase name="b"><failure>1 == 3</failure></testcase>\n'),
    ],
)
def test_reports_of_other_tools(passed: str, failed: str) -> None:
    lines = 9 * passed.count("\n")
    said = f"[... {lines} lines of passed tests left out ...]\n"
    assert seen("test_report", passed * 9 + failed + passed * 9) == said + failed + said
    assert seen("test_report", failed) == failed


def test_what_a_failing_test_of_go_prints_stays_under_its_name() -> None:
    report = (
        "=== RUN   TestAdd\n--- PASS: TestAdd (0.00s)\n" * 5
        + "=== RUN   TestTotal\n=== RUN   TestTotal/discount\n    cart_test.go:33: total = 100, want 90\n"
        + "--- FAIL: TestTotal (0.01s)\n    --- FAIL: TestTotal/discount (0.01s)\n"
        + "=== RUN   TestKilled\nsignal: killed\n"
    )
    less = seen("test_report", report)
    assert less.startswith("[... 10 lines of passed tests left out ...]\n")
    assert less.partition("\n")[2] == report[report.index("=== RUN   TestTotal") :]


GO = """\
panic: no zone 3

goroutine 1 [running]:
main.price(...)
\t/srv/shop/price.go:9
net/http.HandlerFunc.ServeHTTP(0x1, {0x2, 0x3})
\t/usr/local/go/src/net/http/server.go:2136 +0x29
github.com/x/router.(*Mux).serve(0x1)
\t/root/go/pkg/mod/github.com/x/router@v1.2.0/mux.go:71 +0x1d
main.main()
\t/srv/shop/main.go:20 +0x8f
exit status 2
"""


def test_own_python_in_a_folder_lib() -> None:
    own = sample("own-lib.python.txt")
    assert seen("traceback", own) == own
    for library in ("/usr/lib64/python3.12/", "C:\\Python312\\Lib\\"):
        less = seen("traceback", own.replace("/app/lib/python/", library))
        assert "tariff.py" not in less


def test_refused_requests_are_not_counted_with_answered_ones() -> None:
    line = '10.0.0.1 - [23/Nov/2026:14:00:0{}] "GET /x/{} HTTP/1.1" {} 7\n'
    answered = "".join(line.format(i, i, 200) for i in range(9))
    less = seen("logs", answered + line.format(9, 120, 404) + answered)
    assert less == line.format(0, 0, 200).replace(" 7\n", " 7 [x18]\n") + line.format(9, 120, 404)


def test_a_panic_of_go() -> None:
    less = seen("traceback", GO)
    assert "[... 2 library frames left out ...]\n" in less
    assert "server.go" not in less
    for fact in ("panic: no zone 3", "price.go:9", "main.main()", "main.go:20", "exit status 2"):
        assert fact in less
    own = GO.replace("main.price", "x.org/shop/internal/cart.price").replace("/srv/shop/", "/srv/internal/")
    assert "/srv/internal/price.go:9" in seen("traceback", own), "a folder internal of one's own"


# What tools wrote: cargo test, node --test, pytest -v -rA, a panic of Rust with RUST_BACKTRACE=full, errors
# of Java, Node and Python that nobody caught, git diff -M of a folder that moved; logs in two usual shapes.
REAL = {
    "cargo.txt": (
        "test_report",
        90,
        (
            "zone_two ... FAILED",
            "zone_three ... FAILED",
            "slow_one ... ignored",
            "left: 10",
            "right: 11",
            'value: "no zone 3"',
            "src/lib.rs:13:54",
            "26 passed; 2 failed; 1 ignored",
        ),
    ),
    "node.tap": (
        "test_report",
        45,
        (
            "not ok 31 - knows zone three",
            "error: 'no zone 3'",
            "not ok 32 - rounds down",
            "cart.test.mjs:7:36",
            "# fail 2",
            "tax: 2",
        ),
    ),
    "pytest-v.txt": (
        "test_report",
        60,
        (
            "test_zone_three FAILED",
            "KeyError: 3",
            "test_setup ERROR",
            "no database",
            "test_slow SKIPPED",
            "test_x XFAIL",
            "charging order 7",
            "UserWarning: old api",
            "2 orders failed",
            "41 passed",
        ),
    ),
    "panic.rust.txt": (
        "traceback",
        12,
        ('price of order 7: "no zone 9"', "src/main.rs:1:55", "shop::main", "src/main.rs:2:28"),
    ),
    "exception.java.txt": (
        "traceback",
        35,
        (
            "invoice INV-2041 has no number",
            "App.parse(App.java:3)",
            "App.depth(App.java:4)",
            "App.main(App.java:5)",
            'For input string: "INV-2041"',
        ),
    ),
    "error.node.txt": (
        "traceback",
        100,
        ("order 7 could not be read", "reading 'amount'", "app.js:2:68", "app.js:3:30"),
    ),
    "group.python.txt": (
        "traceback",
        90,
        (
            "2 orders failed (2 sub-exceptions)",
            "KeyError: 'total'",
            "order 7 has no total",
            "line 4, in parse",
            "line 10, in retry",
        ),
    ),
    "renames.diff": (
        "diff",
        85,
        (
            "new mode 100755",
            "rename to src/new/m14.py",
            "-    def raw_decode(self, s, idx=0):",
            "+    def raw_decode(self, text, idx=0):",
            "-X = 7",
            "b/bin.dat differ",
        ),
    ),
    "ctest.txt": (
        "test_report",
        30,
        (
            "parse_zone_three",
            "assertion failed: tariff(3) == 11, got 10",
            "slow_one",
            "crash",
            "3 tests failed",
        ),
    ),
    "vitest.txt": ("test_report", 40, ("knows zone three", "no depot 44", "tax: 2", "2 failed")),
    "sanitizer.txt": (
        "traceback",
        95,
        ("heap-buffer-overflow", "price /srv/shop/a.c:3", "main /srv/shop/a.c:5"),
    ),
    "merge.diff": (
        "diff",
        90,
        (
            "+import os",
            " +    return x - 7",
            "+     return x * 7",
            "-     return x + 12",
            " +def f30(x, y=2):",
            " -def f59(x):",
        ),
    ),
    "nginx.log": ("logs", 20, ('/api/pay/8812 HTTP/1.1" 500',)),
    "jest.txt": (
        "test_report",
        60,
        ("✕ zone three", "src/tariff.test.ts:14:22", "○ skipped slow", "31 passed"),
    ),
    "gradle.txt": ("test_report", 20, ("pays() FAILED", "CartTest.java:44", "expected: <11> but was: <10>")),
    "bazel.txt": ("test_report", 20, ("FAILED in 3 out of 3", "testlogs/shop/cart/pays_test/test.log")),
    "go-count2.jsonl": ("test_report", 20, ("pay_test.go:33: got 100, want 90", '"Action":"fail"')),
    "panic.gopath.txt": ("traceback", 95, ("zone.go:12", "/go/src/app/main.go:44", "index out of range [3]")),
    "panic.release.txt": ("traceback", 80, ("shop::tariff::zone", "shop::orders::send", "5: shop::main")),
    "klog.log": ("logs", 20, ("E1123 14:01:07.000123", "W1123 14:01:08", "took 31337ms")),
    "exit-codes.log": ("logs", 10, ("job 57 exited with code 137",)),
    "pino.jsonl": ("logs", 12, ('"level":50',)),
    "syslog.log": ("logs", 10, ("<131>1 2026-11-23T14:00:00Z web app 60",)),
    "journal.log": (
        "logs",
        10,
        ("Out of memory: Killed process 4411 (java)", "status=9/KILL", "Failed with result 'oom-kill'"),
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_facts_of_real_samples_survive(name: str) -> None:
    lens, percent, facts = REAL[name]
    text = sample(name)
    less = seen(lens, text)
    assert 100 * len(less) <= percent * len(text)
    assert [fact for fact in facts if fact not in text] == []
    assert [fact for fact in facts if fact not in less] == []
    assert seen(lens, less) == less
    if lens == "traceback":  # each line is there, or stands in a count
        said = sum(
            int(n) for n in re.findall(r"\[\.\.\. ([0-9]+) (?:library|repeated) frames? left out", less)
        )
        assert said > 0


@pytest.mark.parametrize("lens", ["dedup_lines", "logs", "diff", "traceback", "test_report"])
def test_no_lens_for_what_tools_write_makes_it_larger(lens: str) -> None:
    texts = [sample(path.name) for path in sorted(SAMPLES.iterdir())]
    small = ["a\na\n", "ok 1\n", "PASS\n", "}\n}\n", "  at x (y)\n  at node:z\n  at w (v)\n", GO, JAVA, NODE]
    for text in texts + small:
        assert len(seen(lens, text)) <= len(text)


def test_repeated_lines_of_code_stay_code() -> None:
    code = "".join(f"if x[{n}]:\n    y += 1\n    y += 1\nelse:\n    pass\n" for n in range(3)) + "}\n}\n"
    assert seen("dedup_lines", code).replace(" [x2]", "\n    y += 1") == code
    for path in sorted(Path(json.__file__).parents[1].glob("*.py"))[:40]:
        source = path.read_text(encoding="utf-8", errors="replace")
        less = seen("dedup_lines", source).splitlines()
        assert {line.partition(" [x")[0] for line in less} >= {
            line.partition(" [x")[0] for line in source.splitlines()
        }


def test_json_as_a_table() -> None:
    text = sample("issues.json")
    table = seen('json_table("id, user.login, title")', text)
    lines = table.splitlines()
    assert lines[0] == '{"total":30,"next":null}'
    assert lines[1].startswith("[30 rows, fields left out: state, user.id, user.url, labels, url, body")
    assert lines[2] == "id\tuser.login\ttitle".replace("user.login\ttitle", "title\tuser.login")
    assert lines[3] == "4000\tInvoice 4000 is not sent\tuser0"
    assert len(lines) == 33
    assert "[30 rows, the first 4 shown" in seen("json_table(rows=4)", text)


def test_json_shortened_keeps_its_shape_and_says_what_is_gone() -> None:
    text = sample("issues.json")
    less = seen("json_shorten(text=40, items=3)", text)
    value = json.loads(less)
    assert value["items"][3] == "[... 27 items left out ...]"
    assert (
        value["items"][0]["body"]
        == ("It happens every month. " * 12)[:40] + "[... 248 characters left out ...]"
    )
    assert list(value["items"][0]) == list(json.loads(text)["items"][0])
    assert seen("json_shorten", '{"a":1.10,"a":1e400}') == '{"a":1.10,"a":1e400}'
    assert seen("json_shorten", "no json") == "no json"


@pytest.mark.parametrize(
    ("lens", "text"),
    [
        ("json_shorten", json.dumps([list(range(11)), "x" * 201, ["a"] * 13], separators=(",", ":"))),
        ("diff", "--- a\n+++ b\n@@ -1,9 +1,9 @@ int main()\n c\n c\n c\n c\n-old\n+new\n d\n d\n d\n d\n"),
        ("markdown_sections", "# A\n\nb\n\nc\n\n# D\n\ne\n\nf\n"),
        ('select("b", lines=3)', "a\n\nb\n\nc\n\n" * 2),
    ],
)
def test_a_note_does_not_replace_what_is_shorter(lens: str, text: str) -> None:
    assert seen(lens, text) == text


def test_a_table_has_one_cell_for_a_key() -> None:
    twice = '[{"id":1,"id":2,"name":"a"},{"id":3,"name":"b"}]'
    assert seen('json_table("id")', twice) == twice


def test_a_page_in_a_form_is_kept() -> None:
    pytest.importorskip("markdownify", reason="the extra html is not installed")
    fields = '<input name="q"><select><option>Andorra</option></select><button>Send</button>'
    page = (
        f"<html><body><form><h2>Order 7731</h2><p>Total: 42.50</p>{fields}</form><form>Find {fields}</form>"
    )
    text = seen("html_to_text", page)
    nested = page.replace("<form><h2>", "<form><form><h2>").replace("</form><form>", "</form></form><form>")
    assert seen("html_to_text", nested) == text, "each field is counted once"
    assert text.startswith("## Order 7731\n\nTotal: 42.50\n\n[... 4 elements of")
    assert "Andorra" not in text


def test_a_page_becomes_markdown() -> None:
    pytest.importorskip("markdownify", reason="the extra html is not installed")
    text = seen("html_to_text", sample("page.html"))
    for fact in ("# Tariffs", "**zone 3**", "`9.40`", "| 2 | 6.10 |", "[online](https://pay.example.com)"):
        assert fact in text
    assert "if zone == 3:\n    price = 9.40" in text
    assert "track(" not in text
    assert "[... 3 elements of navigation, style and script left out ...]" in text
    assert seen("html_to_text", "no page, a < b") == "no page, a < b"
    folded = "<p>a</p><details><summary>More</summary>Facts</details><footer>Imprint</footer>"
    assert "\nMore\n\nFacts\n\nImprint\n" in seen("html_to_text", folded), "words are not joined"
    code = "<p>a</p><pre>def a(): ...\n\n\ndef b(): ...</pre><p>b</p>\n\n\n\n<p>c</p>"
    assert seen("html_to_text", code) == "a\n\n```\ndef a(): ...\n\n\ndef b(): ...\n```\n\nb\n\nc\n"


GUIDE = """\
Some words first.

# Install

Run the installer.

Then restart. It takes a minute or two, and not more.

## On Linux

Use the package.

# Usage

Call it.

It answers with a price, a zone and a depot.
"""


def test_markdown_by_section() -> None:
    less = seen('markdown_sections("install")', GUIDE)
    assert less.startswith(GUIDE[: GUIDE.index("# Usage")])
    assert less.endswith("# Usage\n\nCall it.\n\n[... 1 line left out ...]\n\n")
    assert "Then restart." not in seen("markdown_sections", GUIDE)


def test_what_matches_a_query_is_kept() -> None:
    paragraphs = [f"Paragraph {i} is about parcels and routes.\n\n" for i in range(30)]
    paragraphs[17] = "The tariff of zone 3 is 9 euros.\n\n"
    less = seen('select("which tariff has zone 3?", lines=6)', "".join(paragraphs))
    assert "The tariff of zone 3 is 9 euros." in less
    shown = sum("left out" not in line for line in less.splitlines())
    assert shown <= 6
    assert shown + sum(map(int, re.findall(r"\.\.\. (\d+) lines? left out", less))) == 60
    log = [f"request {i} done\n" for i in range(150)]
    log[30] = log[99] = "the database is locked\n"
    assert seen('select("database locked", lines=8)', "".join(log)).count("the database is locked") == 2


HUGE = 200_000


@pytest.mark.parametrize(
    ("lens", "text"),
    [
        ("logs", "x" * HUGE),
        ("diff", "--- a\n+++ b\n@@ -1,1 +1,1 @@\n-a\n+b\n" + "diff --git a b\n" + "text\n" * (HUGE // 5)),
        ("test_report", "ok 1 - a\n---\n" * (HUGE // 13)),
        ("test_report", "a::b" * (HUGE // 4)),
        ("traceback", "  at a" + " " * HUGE + "x\n"),
        ("traceback", "1: a" + " " * HUGE + "x\n"),
        ("traceback", "  at " + "a[" * (HUGE // 2) + " x\n"),
        ("traceback", "   at A.B(C d) in /x:line " * (HUGE // 26)),
        ("test_report", "a" + " > b" * (HUGE // 4)),
        ("test_report", "\n" * HUGE),
        ("test_report", "#" * HUGE),
        ("html_to_text", "<!-- a -->" * (HUGE // 10)),
        ("html_to_text", "<p>a" + " " * HUGE + "b"),
        ("html_to_text", "<p>" + "<div>" * (HUGE // 100)),
        ("html_to_text", "<p>" + "<div " * (HUGE // 5)),
        ("html_to_text", "<p>" + "<p x='" * (HUGE // 6)),
        ("html_to_text", "<p>" + "<form>" * (HUGE // 30)),
        ("select('a b', lines=2)", "# a" + " " * HUGE + "x\n\nb\n"),
        ("json_table", "[" + ",".join(f'{{"a{i}":1}}' for i in range(HUGE // 10)) + "]"),
    ],
)
def test_a_hostile_text_takes_no_time_worth_mention(lens: str, text: str) -> None:
    """Each of these took minutes or more, or all of the memory, or Python's stack."""
    start = time.process_time()
    less = seen(lens.replace("'", '"'), text)
    assert time.process_time() - start < 10
    assert len(less) < len(text) + 50


def test_json_lines_and_the_name_of_the_list_in_a_path() -> None:
    rows = [{"id": n, "user": {"name": f"u{n}", "mail": "m"}} for n in range(3)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    table = "[3 rows, fields left out: user.mail]\nid\tuser.name\n0\tu0\n1\tu1\n2\tu2\n"
    assert seen('json_table("id, user.name")', lines) == table
    assert seen('json_table("data.id, data.user.name")', json.dumps({"data": rows})) == table
    assert seen('json_table("zip")', lines) == lines, "no row has such a field, so nothing is left out"
    assert seen("json_minify", lines) == "".join(
        f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows
    )
    long = f'{{"a": "{"x" * 60}"}}\n{{"a": {list(range(1, 32))}}}\n'
    assert seen("json_shorten(text=10, items=1)", long) == (
        '{"a":"xxxxxxxxxx[... 50 characters left out ...]"}\n{"a":[1,"[... 30 items left out ...]"]}\n'
    )
    assert seen("json_minify", "1\n2\n") == "1\n2\n"


def test_the_data_of_a_binary_patch_is_a_count() -> None:
    data = "".join(f"z{n:040d}\n" for n in range(20))
    patch = (
        f"diff --git a/logo.png b/logo.png\nGIT binary patch\nliteral 900\n{data}\nliteral 800\n{data}\n"
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    )
    less = seen("diff", patch)
    assert "GIT binary patch\n[44 lines of a binary patch left out]\ndiff --git a/x b/x\n" in less
    assert less.endswith("-a\n+b\n")
    assert seen("diff", less) == less
