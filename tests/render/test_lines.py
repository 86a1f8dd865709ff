"""Text in cells: nothing is wider than asked, and nothing of a name can move the cursor."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.render.lines import ASCII, UNICODE, Span, cells, clip, cut_cells, fit_line, pad, printable, wrap

NAMES = st.text(
    st.one_of(
        st.sampled_from("ab 中文é\u0301👨\u200d👩🇩🇪\ufe0f\x1b\n\t\u202e\u2028\ud800"),
        st.characters(),
    ),
    max_size=30,
)
WIDTHS = st.integers(1, 40)
CHARSETS = st.sampled_from([ASCII, UNICODE])


@given(NAMES, CHARSETS)
def test_printable_has_nothing_invisible(text: str, charset: object) -> None:
    assert charset in (ASCII, UNICODE)
    shown = printable(text, ASCII if charset is ASCII else UNICODE)
    assert {unicodedata.category(c) for c in shown.replace("\u200d", "")} & {
        "Cc",
        "Cs",
        "Zl",
        "Zp",
        "Co",
        "Cf",
    } == set()
    assert shown.isascii() or charset is UNICODE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("src/main.py", "src/main.py"),
        ("a\nb\x1b[0m", r"a\nb\x1b[0m"),
        ("中文 é", "中文 é"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("a\u200db", r"a\u200db"),
        ("\u202eevil", r"\u202eevil"),
    ],
)
def test_what_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(NAMES, WIDTHS)
def test_clip_and_pad_keep_to_the_width(text: str, width: int) -> None:
    shown = printable(text)
    assert cells(clip(shown, width)) <= width
    assert cells(pad(shown, width)) == width
    assert shown.startswith(cut_cells(shown, width))
    if cells(shown) <= width:
        assert clip(shown, width) == shown


@given(st.lists(NAMES, max_size=5), WIDTHS, CHARSETS)
def test_fitted_lines_keep_to_the_width(texts: list[str], width: int, charset: object) -> None:
    drawn = ASCII if charset is ASCII else UNICODE
    line = [Span(printable(text, drawn)) for text in texts]
    fitted = fit_line(line, width, drawn)
    whole = "".join(span.text for span in line)
    shown = "".join(span.text for span in fitted)
    assert sum(cells(span.text) for span in fitted) <= width
    assert whole.startswith((shown, shown.removesuffix(drawn.ellipsis)))


@given(st.text("ab 中 ", max_size=60), st.integers(2, 20))
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(cells(line) <= width for line in lines)


@pytest.mark.parametrize("word", ["a" * 3_000_000, "\u6f22" * 200_000])
def test_a_very_long_word_is_wrapped_in_linear_time(word: str) -> None:
    """Each line cut a copy of the rest, and measured it: an hour for the second."""
    lines = wrap(f"one {word}", 40)
    assert "".join(lines) == f"one{word}"
    assert {cells(line) for line in lines[1:-1]} == {40}
