"""A notebook run in a real kernel: what it shows of a layout, fitted messages, a decision and the slider.

``make clients`` installs the kernel and runs this.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.waiting import SECONDS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ENVIRONMENT, LOCK = HERE / ".venv-with-notebook", HERE / "locks" / "with-notebook.txt"


def test_a_notebook_shows_results_and_the_slider_sets_a_budget() -> None:
    stamp = ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes():
        pytest.skip("the kernel is not installed; make clients installs it")
    done = subprocess.run(
        [ENVIRONMENT / "bin" / "python", "python/with_notebook.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    _, layout, fitted, decision, slider, chosen = json.loads(done.stdout.splitlines()[-1])["shown"]
    for cell, kind in ((layout, "<Layout: "), (fitted, "<Fitted: "), (decision, "<Enforcement: ")):
        (output,) = cell
        assert output["output_type"] == "execute_result"
        assert output["data"]["text/plain"].startswith(kind)
        assert "<script" not in output["data"]["text/html"]
    assert "20 of 20 tokens" in layout[0]["data"]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in slider[0]["data"]
    assert chosen == [{"name": "stdout", "output_type": "stream", "text": "[12] 12\n"}]
