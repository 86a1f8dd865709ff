"""The picture of a layout: right in its figures, never wider than asked, honest about what it leaves out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenbox
from tests.effort import examples
from tokenbox.content.section import Section
from tokenbox.errors import ContextCriticalOverflow, plural
from tokenbox.render.explain import MAX_ROWS, explain, overflow_picture
from tokenbox.render.lines import ASCII, UNICODE, cells, plain, printable
from tokenbox.render.whatif import whatif_lines

IDS = st.text(st.sampled_from("abc中é👩\u200d\n\x1b/. "), min_size=1, max_size=40).filter(str.strip)
CONTENTS = st.text(st.sampled_from("ab \n中"), max_size=80)


@st.composite
def section_lists(draw: st.DrawFn) -> list[Section]:
    ids = draw(st.lists(IDS, max_size=8, unique=True))
    return [
        Section(
            id=name,
            content=draw(CONTENTS),
            shrink=draw(st.integers(0, 2)),
            min=draw(st.integers(0, 9)),
            grow=draw(st.integers(0, 1)),
            extra=tuple(draw(st.lists(CONTENTS, max_size=2))),
        )
        for name in ids
    ]


@settings(max_examples=examples(60))
@given(
    section_lists(),
    st.integers(0, 400),
    st.integers(20, 130),
    st.sampled_from([ASCII, UNICODE]),
    st.sampled_from(["utf8-bytes", "chars4"]),
    st.booleans(),
)
def test_no_line_is_wider_than_the_width(
    sections: list[Section], budget: int, width: int, charset: object, tokenizer: str, reclaim: bool
) -> None:
    drawn = ASCII if charset is ASCII else UNICODE
    try:
        layout = tokenbox.layout(sections, budget, tokenizer, reclaim=reclaim)
    except ContextCriticalOverflow as overflow:
        picture = plain(overflow_picture(overflow, width, drawn))
    else:
        picture = explain(layout, width, drawn)
        assert picture == explain(layout, width, drawn)
    results = tokenbox.whatif(sections, [budget, budget * 2], tokenizer)
    table = plain(whatif_lines(sections, results, width, drawn))
    for text in (picture, table):
        assert all(cells(line) <= width for line in text.split("\n"))
        assert text.isascii() or drawn is UNICODE


@settings(max_examples=examples(40))
@given(section_lists(), st.integers(0, 400))
def test_bars_tile_the_budget(sections: list[Section], budget: int) -> None:
    """Every section's bar begins where the one before it ended."""
    try:
        layout = tokenbox.layout(sections, budget, "utf8-bytes")
    except ContextCriticalOverflow:
        return
    reached = 0
    rows = [
        line for line in explain(layout, 120).splitlines() if re.search(r"(kept|expanded|truncated) +│", line)
    ]
    assert len(rows) == sum(section.decision.value != "dropped" for section in layout.sections)
    for row in rows:
        bar = row.split("│")[1]
        body = bar.strip()
        start = len(bar) - len(bar.lstrip()) if body else reached
        assert abs(start - reached) <= 1
        reached = start + len(body.replace("▏", ""))


def test_waterfall_adds_up() -> None:
    layout = tokenbox.layout(
        [
            {"id": "rules", "content": "a" * 121},
            {"id": "rest", "content": "b" * 1879, "shrink": 1},
        ],
        2_003,
        "utf8-bytes",
    )
    figures = {
        label: (int(tokens.replace(",", "")), share)
        for label, tokens, share in re.findall(
            r"^[−=] (\w+) +([\d,]+) +([\d.]+) %", explain(layout), re.MULTILINE
        )
    }
    assert {label: tokens for label, (tokens, _) in figures.items()} == {
        "critical": layout.fixed_load,
        "flexible": layout.total - layout.fixed_load,
        "free": layout.budget - layout.total,
    }
    assert sum(int(share.replace(".", "")) for _, share in figures.values()) == 1_000


def test_every_figure_of_an_estimate_is_marked() -> None:
    sections = [
        Section("rules", "a" * 400),
        Section("rest", "b" * 4_000, shrink=1),
        Section("log", "c" * 4_000, shrink=1, priority=1),
    ]
    picture = explain(tokenbox.layout(sections, 777, "chars4"))
    bare = {
        figure
        for line in picture.splitlines()
        if not line.startswith("3 sections")
        for figure in re.findall(r"(?<![~\d,.])\d[\d,]*(?![\d,]*[.\d]* %)\b", line)
    }
    # The budget is given, not counted; the 4 is of the tokenizer's name.
    assert bare - {"4"} == {"777"}
    with pytest.raises(ContextCriticalOverflow) as caught:
        tokenbox.layout(sections, 33, "chars4")
    assert set(re.findall(r"(?<![~\d,])\d[\d,]*", plain(overflow_picture(caught.value)))) == {"33"}


def test_what_is_left_out_is_said_and_summed() -> None:
    sections = [
        {"id": f"s{i:03}", "content": "x" * (i + 1), "shrink": 1, "priority": i}
        for i in range(MAX_ROWS + 160)
    ]
    layout = tokenbox.layout(sections, 5_000, "utf8-bytes", separator="")
    picture = explain(layout, 100)
    shown = set(re.findall(r"^  (s\d{3})", picture, re.MULTILINE))
    assert len(shown) == MAX_ROWS
    hidden = [section for section in layout.sections if section.id not in shown]
    base, size = sum(s.base_size for s in hidden), sum(s.size for s in hidden)
    assert re.search(rf"^  and 160 more +{base:,} → +{size:,}  ", picture, re.MULTILINE)
    # What was cut in part is what one looks for.
    assert {s.id for s in layout.sections if s.decision is tokenbox.Decision.TRUNCATED} <= shown


@pytest.mark.parametrize("budget", [0, 1])
def test_tiny_budgets_and_no_sections(budget: int) -> None:
    assert "no sections" in explain(tokenbox.layout([], budget, "utf8-bytes"))
    flexible = tokenbox.layout([{"id": "a", "content": "bb", "shrink": 1}], budget, "utf8-bytes")
    assert f"{budget} of {plural(budget, 'token')}" in explain(flexible)


def test_layout_explains_itself() -> None:
    layout = tokenbox.layout([{"id": "a\n中", "content": "text"}], 9, "utf8-bytes")
    assert layout.explain(60) == explain(layout, 60)
    assert printable("a\n中") in layout.explain(60)
