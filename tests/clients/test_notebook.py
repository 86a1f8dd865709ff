"""A notebook run in a real kernel: what it shows of a layout, fitted messages, a decision and the slider.

``make clients`` installs the kernel and runs this.
"""

from __future__ import annotations

import pytest

from tests.clients.environments import is_installed, reported

pytestmark = pytest.mark.slow


def test_a_notebook_shows_results_and_the_slider_sets_a_budget() -> None:
    if not is_installed("notebook"):
        pytest.skip("the kernel is not installed; make clients installs it")
    _, layout, fitted, decision, slider, chosen = reported("notebook")["shown"]
    for cell, kind in ((layout, "<Layout: "), (fitted, "<Fitted: "), (decision, "<Enforcement: ")):
        (output,) = cell
        assert output["output_type"] == "execute_result"
        assert output["data"]["text/plain"].startswith(kind)
        assert "<script" not in output["data"]["text/html"]
    assert "20 of 20 tokens" in layout[0]["data"]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in slider[0]["data"]
    assert chosen == [{"name": "stdout", "output_type": "stream", "text": "[12] 12\n"}]
