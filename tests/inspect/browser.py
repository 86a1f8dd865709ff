"""Fixtures: a real browser for the pages.

``TOKENBOX_TEST_BROWSER`` is the path of a Chromium, which must start. Without it, the tests use the installed
Chromium and ChromeDriver; if these are missing, the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.missing import missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.chrome.webdriver import WebDriver

VARIABLE = "TOKENBOX_TEST_BROWSER"
INSTALL = "Debian and Ubuntu: apt install chromium chromium-driver"
# Disable network use: the search for updates would block without a network.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
# The beginning of messages about the browser's own pages, such as a slow network without one.
_BROWSERS_OWN = "chrome://"


def found_browser() -> str | None:
    """Return the path of the browser, or None."""
    return os.environ.get(VARIABLE) or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """Start a headless browser."""
    program, driver = found_browser(), shutil.which("chromedriver")
    if program is None or driver is None:
        missing(f"Chromium or its ChromeDriver is not installed. {INSTALL}", VARIABLE)
    with started(program, driver, tmp_path_factory.mktemp("profile")) as found:
        yield found


@contextmanager
def started(program: str, driver: str, profile: Path) -> Iterator[WebDriver]:
    from selenium import webdriver  # only if there is a browser
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield found
    finally:
        found.quit()


def opened(
    browser: WebDriver, page: Path, width: int = 1280, height: int = 900, *, dark: bool = False
) -> None:
    """Open a page with a size and a theme, and wait until it is rendered."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    browser.get(page.as_uri())
    assert run(browser, "return document.documentElement.dataset.ready") == "true", messages(browser)


def run(browser: WebDriver, script: str, *arguments: Any) -> Any:  # noqa: ANN401  # JSON
    """Run a script in the page and return its result."""
    return browser.execute_script(script, *arguments)


def messages(browser: WebDriver) -> list[str]:
    """Return the new messages of the console, which include violations of the content security policy."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries if not entry["message"].startswith(_BROWSERS_OWN)]
