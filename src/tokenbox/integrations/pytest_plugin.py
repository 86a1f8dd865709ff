"""Budgets as assertions: ``pytest_plugins = ["tokenbox.integrations.pytest_plugin"]`` in ``conftest.py``.

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
from tokenbox.policy.guard import needed

if TYPE_CHECKING:
    from tokenbox.compose.requests import Count

AssertFits = Callable[..., "Count"]


@pytest.fixture
def assert_fits() -> AssertFits:
    """The function :func:`check_fits`: fails a test whose prompt is over its budget."""
    return check_fits


def check_fits(
    what: object,
    budget: int,
    model: str | None = None,
    *,
    tokenizer: api.Counts | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> Count:
    """The count of ``what``, which must be at most ``budget`` tokens; what is not exact has a margin.

    ``what``: a text, messages, a whole request, or the ``Path`` of a file that has one of them. ``model`` or
    ``tokenizer`` says who counts. Raises ``AssertionError`` with the figures.
    """
    __tracebackhide__ = True
    given = _read(what) if isinstance(what, Path) else what
    count = api.count(given, model, tokenizer=tokenizer, tools=tools)
    over = needed(count)[0] - budget
    if over > 0:
        name = f"{what}: " if isinstance(what, Path) else ""
        about = "" if count.exact else "~"
        raise AssertionError(f"{name}{count} tokens, {about}{over:,} over the budget of {budget:,}")
    return count


def _read(path: Path) -> Any:  # a text, or JSON
    """The text of a file; of a .json file with a chat, the chat."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text
    value = json.loads(text)
    is_request = isinstance(value, dict) and value.keys() & {"messages", "input", "prompt"}
    return value if is_request or isinstance(value, list) else text
