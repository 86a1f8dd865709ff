"""None is unknown; what cannot be a number of tokens is refused by us and unknown from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.ledger import UNKNOWN_USAGE, InvalidUsage, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
)
anything = st.one_of(
    st.none(), st.integers(-3, 12), st.booleans(), st.floats(), st.text(max_size=3), st.lists(st.integers())
)
reports = st.one_of(
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, anything)),
    st.fixed_dictionaries(dict.fromkeys(NAMES, st.none() | st.integers(0, 12))),
)


def test_nothing_known_is_not_nothing_used() -> None:
    assert UNKNOWN_USAGE.to_dict() == dict.fromkeys(NAMES)
    assert Usage(0, 0) != UNKNOWN_USAGE


@pytest.mark.parametrize("value", [-1, True, 1.0, "1"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_of_tokens_is_refused(name: str, value: object) -> None:
    figures: Mapping[str, object] = {"input_tokens": None, "output_tokens": None, name: value}
    with pytest.raises(InvalidUsage, match=name) as caught:
        Usage(**figures)  # type: ignore[arg-type]  # that is the point
    assert caught.value.code == "invalid_usage"


def test_a_part_is_not_more_than_its_whole() -> None:
    assert Usage(10, 5, 10, 5, 10).cached_input_tokens == 10
    wrong: tuple[dict[str, Any], ...] = (
        {"cached_input_tokens": 11},
        {"cache_write_tokens": 11},
        {"cache_write_1h_tokens": 11},
        {"cache_write_tokens": 4, "cache_write_1h_tokens": 5},
        {"reasoning_tokens": 6},
    )
    for parts in wrong:
        with pytest.raises(InvalidUsage, match="more than the"):
            Usage(10, 5, **parts)


@given(reports)
def test_a_report_never_raises_and_keeps_every_figure_that_can_be_one(said: dict[str, Any]) -> None:
    usage = Usage.reported(**said)
    for name in ("input_tokens", "output_tokens"):
        value = said.get(name)
        counts = type(value) is int and value >= 0
        assert getattr(usage, name) == (value if counts else None)
    for part, whole in (
        ("cached_input_tokens", "input_tokens"),
        ("cache_write_tokens", "input_tokens"),
        ("reasoning_tokens", "output_tokens"),
    ):
        value, total = said.get(part), getattr(usage, whole)
        counts = type(value) is int and value >= 0 and (total is None or value <= total)
        assert getattr(usage, part) == (value if counts else None)
    hour = said.get("cache_write_1h_tokens")
    wholes = [size for size in (usage.input_tokens, usage.cache_write_tokens) if size is not None]
    counts = type(hour) is int and 0 <= hour <= min(wholes, default=hour)
    assert usage.cache_write_1h_tokens == (hour if counts else None)
