"""The adapters: an agent of each framework goes past its window without them, and stays within it with them.

``make clients`` installs the frameworks and runs this.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.clients.environments import is_installed, reported
from tests.clients.windowed import DONE, ROUNDS, WINDOW
from tests.services import free_port
from tests.waiting import SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Framework:
    """``without`` and ``within``: the agents that go past the window, and those that stay within it.

    ``rounds``: of tool calls that they report, or turns.
    """

    name: str
    without: tuple[str, ...] = ("without",)
    within: tuple[str, ...] = ("fitted",)
    rounds: int | None = ROUNDS


FRAMEWORKS = [
    Framework("langchain", within=("fitted", "async", "streamed")),
    Framework("pydantic-ai", within=("fitted", "pinned")),
    Framework("openai-agents", within=("fitted", "chat")),
    Framework("llama-index", rounds=12),
    Framework(
        "sdks",
        without=("without", "without responses", "without anthropic"),
        within=("fitted", "fitted responses", "fitted anthropic"),
    ),
    Framework("litellm", within=("fitted", "by hand")),
    Framework("haystack", rounds=ROUNDS + 1),
]
REST: dict[str, dict[str, object]] = {
    "langchain": {"trimmed": ["SystemMessage", "HumanMessage"]},
    "llama-index": {"given_back": "ok", "selected": ["Dogs bark at the moon.", "Rain falls."]},
    "sdks": {"refused": ["over_window", 8], "by window": [8192, 8000], "streams": [DONE, [0] * 6]},
    "haystack": {"saved": True},
}


@pytest.fixture(scope="module")
def windowed() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "tests.clients.windowed", str(port)])
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{url}/x/told", timeout=SECONDS):
            return True
        return False

    until(answers, "a start of the server")
    yield url
    process.kill()
    process.wait()


def sizes(url: str, name: str) -> list[int]:
    """The tokens of each request that an agent sent."""
    with urllib.request.urlopen(f"{url}/{name}/told", timeout=SECONDS) as answer:
        found: list[int] = json.load(answer)
        return found


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_an_agent_stays_within_its_window(windowed: str, framework: Framework) -> None:
    if not is_installed(framework.name):
        pytest.skip(f"{framework.name} is not installed; make clients installs it")
    facts = reported(framework.name, f"{windowed}/{framework.name}")
    for name in framework.without:
        assert "maximum context length" in str(facts[name]), facts[name]
    for name in framework.within:
        assert facts[name] == [DONE, framework.rounds], name
    assert {name: facts[name] for name in REST.get(framework.name, {})} == REST.get(framework.name, {})
    for name in framework.without:
        assert max(sizes(windowed, f"{framework.name}-{name}".replace(" ", "-"))) > WINDOW
    for name in framework.within:
        found = sizes(windowed, f"{framework.name}-{name}".replace(" ", "-"))
        assert max(found) <= WINDOW
        assert len(found) > ROUNDS
        assert max(found) > WINDOW * 2 // 3  # the window is used
