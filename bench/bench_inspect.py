"""Time to open and scroll the page of `tokenbox inspect` in a real browser: 1,000 sections, 2 MB of text.

For comparison: prompt-tsx's HTMLTracer, which serves a page with the elements of a prompt.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the tests' browser

import tokenbox  # noqa: E402
from tests.inspect.browser import found_browser, started  # noqa: E402
from tokenbox.inspect import entry_of, page  # noqa: E402

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

SECTIONS, CHARACTERS = 1_000, 2_000_000
TARGET_MS, TARGET_FRAME_MS = 1_000, 50
PEER = HERE / ".npm-prompt-tsx"

PAINT = """
const paint = performance.getEntriesByName('first-contentful-paint')[0];
return paint ? paint.startTime : null;
"""
# The milliseconds of each of 120 frames, scrolled by 90 pixels each.
SCROLL = """
const [selector, done] = arguments;
const box = document.querySelector(selector) ?? document.scrollingElement;
const times = [];
let last = performance.now();
const step = () => {
  const now = performance.now();
  times.push(now - last);
  last = now;
  box.scrollTop += 90;
  if (times.length < 121) requestAnimationFrame(step); else done(times.slice(1));
};
requestAnimationFrame(step);
"""


def run(*, quick: bool) -> dict[str, Any]:
    program, driver = found_browser(), shutil.which("chromedriver")
    if program is None or driver is None:
        sys.exit("Chromium or its ChromeDriver is not installed")
    runs = 3 if quick else 9
    text = "word and another word, " * (CHARACTERS // SECTIONS // 23)
    sections = [
        {"id": f"part-{i}", "content": f"{i} {text}", "shrink": 1, "priority": i} for i in range(SECTIONS)
    ]
    layout = tokenbox.layout(sections, CHARACTERS // 8, "o200k_base")
    with tempfile.TemporaryDirectory() as folder:
        file, empty = Path(folder) / "page.html", Path(folder) / "empty.html"
        empty.write_text(page([]), encoding="utf-8")
        begun = time.perf_counter()
        file.write_text(page([entry_of(layout)]), encoding="utf-8")
        made = time.perf_counter() - begun
        with started(program, driver, Path(folder) / "profile") as browser:
            rows = [
                {
                    "what": "tokenbox inspect",
                    "bytes": file.stat().st_size,
                    "made_s": made,
                    **opened(browser, file.as_uri(), ".rows .list", runs),
                },
                *traced(browser, runs),
            ]
        size = empty.stat().st_size
    return {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "empty_bytes": size, "runs": runs, "rows": rows}


def opened(browser: WebDriver, address: str, scrolled: str, runs: int) -> dict[str, Any]:
    """Return milliseconds to the first paint, and per frame while it scrolls."""
    paints, frames = [], []
    for _ in range(runs + 1):  # the first run warms up the browser
        browser.get("about:blank")
        browser.get(address)
        paint = None
        while paint is None:
            paint = browser.execute_script(PAINT)
        paints.append(paint)
        frames.append(browser.execute_async_script(SCROLL, scrolled))
    each = [frame for one in frames[1:] for frame in one]
    return {
        "paint_ms": median(paints[1:]),
        "worst_paint_ms": max(paints[1:]),
        "frame_ms": median(each),
        "p99_frame_ms": sorted(each)[len(each) * 99 // 100],
    }


def traced(browser: WebDriver, runs: int) -> list[dict[str, Any]]:
    """Measure HTMLTracer; return no row if it is not installed (bench/setup inspect)."""
    node = shutil.which("node")
    if node is None or not PEER.is_dir():
        return []
    command = [node, str(HERE / "peers" / "html_tracer.mjs"), str(PEER), str(SECTIONS), str(CHARACTERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        served = json.loads(server.stdout.readline())
        found = opened(browser, served["address"], "html", runs)
        server.stdin.close()
    return [
        {
            "what": "prompt-tsx HTMLTracer 0.4.0-alpha.9",
            "bytes": served["bytes"],
            "made_s": served["seconds"],
            **found,
        }
    ]


def table(results: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {row['what']} | {row['bytes'] / 1e6:.2f} | {row['made_s']:.1f} | {row['paint_ms']:.0f} | "
        f"{row['worst_paint_ms']:.0f} | {row['frame_ms']:.1f} | {row['p99_frame_ms']:.1f} |"
        for row in results["rows"]
    )
    return f"""# The page of `tokenbox inspect`

`python bench/run.py inspect`, {results["when"]}: {SECTIONS:,} sections and
{CHARACTERS // 1_000_000} MB of text, in headless Chromium; {results["runs"]} runs. Targets: the first paint
below {TARGET_MS:,} ms, and 99 of 100 frames below {TARGET_FRAME_MS} ms while it scrolls.

| page | MB | made in s | first paint ms | worst | frame ms | 99th of 100 |
|---|---:|---:|---:|---:|---:|---:|
{rows}

A page with nothing to show has {results["empty_bytes"]:,} bytes. The page of HTMLTracer asks its server
whenever the budget changes; that of tokenbox is a file that asks for nothing. The time to make it includes
the layouts of its slider. HTMLTracer counts by characters here, tokenbox with o200k_base.
"""
