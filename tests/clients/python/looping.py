"""The task of the agents of all frameworks: read long pages with a tool, and report results as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

MODEL = "gpt-4o"
BUDGET = 1_500
QUESTION = "Read all pages and say what is in them."
SYSTEM = "You read pages. Be brief."


def page(number: int) -> str:
    """Return a page of a book."""
    return f"Page {number}. " + "It was a dark and stormy night; the rain fell in torrents. " * 25


def report(agents: dict[str, Callable[[str], Any]]) -> None:
    """Run each agent with its own base URL; report its result, or the error that it raised."""
    url = sys.argv[1]
    facts: dict[str, Any] = {}
    for name, run in agents.items():
        try:
            facts[name] = run(f"{url}-{name.replace(' ', '-')}")
        except Exception as error:
            facts[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(facts))
