"""Assertions on budgets: ``pytest_plugins = ["tokenbox.integrations.pytest_plugin"]`` in ``conftest.py``.

def test_the_prompt_leaves_room(assert_fits):
assert_fits(Path("prompts/system.md"), 2_000, model="gpt-4o")
assert_fits(build_messages("a long question"), 8_000, model="gpt-4o", tools=TOOLS)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tokenbox import api
from tokenbox.integers import token_budget
from tokenbox.policy.guard import needed

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count, Counts

AssertFits = Callable[..., "Count"]


@pytest.fixture
def assert_fits() -> AssertFits:
    """Provide :func:`check_fits`, which fails a test whose prompt exceeds its budget."""
    return check_fits


def check_fits(
    what: object,
    budget: int,
    model: str | None = None,
    *,
    tokenizer: Counts | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> Count:
    """Return the count of ``what``, at most ``budget`` tokens. An estimate includes its margin.

    ``what``: a text, messages, a whole request, or the ``Path`` of a file that contains one. ``model``
    or ``tokenizer`` selects the counter. Raises ``AssertionError`` with the figures.
    """
    __tracebackhide__ = True
    given = _read(what) if isinstance(what, Path) else what
    count = api.count(given, model, tokenizer=tokenizer, tools=tools)
    over = needed(count)[0] - token_budget(budget)
    if over > 0:
        name = f"{what}: " if isinstance(what, Path) else ""
        about = "" if count.exact else "~"
        raise AssertionError(f"{name}{count} tokens, {about}{over:,} over the budget of {budget:,}")
    return count


def _read(path: Path) -> Any:  # a text, or JSON
    """Return the text of a file, or the chat in a .json file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text
    value = json.loads(text)
    is_request = isinstance(value, dict) and value.keys() & {"messages", "input", "prompt"}
    return value if is_request or isinstance(value, list) else text
