"""The fixture in a test suite of somebody's own, and its function by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.waiting import SECONDS
from tokenbox.integrations.pytest_plugin import check_fits

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
from pathlib import Path

def test_fits(assert_fits):
    assert assert_fits("Hello", 1, "gpt-4o").total == 1

def test_is_over(assert_fits):
    assert_fits(Path("prompt.md"), 3, tokenizer="utf8-bytes")
"""


@pytest.mark.slow
def test_a_suite_that_uses_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tokenbox.integrations.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "prompt.md").write_text("hello")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # others take seconds to load
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "AssertionError: prompt.md: 5 tokens, 2 over the budget of 3" in done.stdout


def test_what_is_counted(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hello"}]
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    (tmp_path / "plain.json").write_text('{"a": 1}')
    assert check_fits(chat, 16, "gpt-4o").exact
    assert check_fits(tmp_path / "chat.json", 16, "gpt-4o").total == 16
    assert check_fits(tmp_path / "plain.json", 8, tokenizer="utf8-bytes").total == 8
    with pytest.raises(AssertionError, match="16 tokens, 1 over the budget of 15"):
        check_fits(chat, 15, "gpt-4o")
    # What is not exact has its margin in the figure, and says that it is not.
    about = check_fits(chat, 10**6, "claude-sonnet-4-5")
    with pytest.raises(AssertionError, match=f"~{about.total} tokens, ~1 over"):
        check_fits(chat, about.total - 1, "claude-sonnet-4-5")
