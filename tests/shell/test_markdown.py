"""Markdown as it comes: the same whatever the pieces, no line too wide, code as it was written."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokenbox.cli.markdown import Markdown
from tokenbox.cli.screens import TerminalScreen, safe
from tokenbox.render.lines import ASCII, UNICODE, Charset, cells

if TYPE_CHECKING:
    from collections.abc import Sequence

COLOUR = re.compile(r"\x1b\[\d*m")
TEXT = """# Tides

The **high tide** in `Brest` is at *noon*, and 2*3 = 6, as snake_case__name says.

- one item that is long enough to be wrapped at the edge of a narrow terminal
- another
1. first

> a quote that goes on for longer than the narrow terminal has columns to show it

Two  blanks, and

```code```

```python title="A tide"
def tide(port): return "noon at a place with a long name that is wider than the terminal is"
```
End."""


def shown(pieces: Sequence[str], width: int = 60, *, colours: bool = True, charset: Charset = UNICODE) -> str:
    out: list[str] = []
    page = Markdown(out.append, lambda: width, colours=colours, charset=charset)
    for piece in pieces:
        page.feed(piece)
    page.end()
    return "".join(out)


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_no_line_is_too_wide_but_code_which_is_as_it_was_written(width: int) -> None:
    code = [line for line in TEXT.splitlines() if line.startswith("def")]
    lines = COLOUR.sub("", shown([TEXT], width)).splitlines()
    assert code[0] in lines
    assert all(cells(line) <= width for line in lines if line != code[0])
    words = [word for line in lines for word in line.split()]
    assert "high tide" in " ".join(words)
    assert "2*3" in words
    assert "snake_case__name" in words


def test_marks_become_styles() -> None:
    out = shown(["**high tide** in `Brest`\n# Head\n- item"])
    assert "\x1b[1mhigh" in out
    assert "\x1b[36mBrest" in out
    assert "**" not in out
    assert "`" not in out
    assert "• item" in out
    assert "\x1b[1mHead" in out


def test_a_terminal_without_the_characters_gets_none_of_them() -> None:
    out = shown(["- item\n> quote\n***\n| a | b |\n|---|---|\n| 1 | 2 |\n"], charset=ASCII)
    assert out.isascii()
    assert COLOUR.sub("", out).startswith("- item\n> quote\n-----")


def test_without_colours_nothing_is_lost() -> None:
    out = shown([TEXT], 80, colours=False)
    assert "\x1b" not in out
    assert "**high tide** in `Brest`" in out


@given(st.lists(st.integers(1, 12), max_size=120))
@example([1] * len(TEXT))
def test_the_pieces_do_not_matter(sizes: list[int]) -> None:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(TEXT[at : at + size])
        at += size
    assert shown([*pieces, TEXT[at:]]) == shown([TEXT])


@given(
    st.text(
        alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"], include_characters="\n*`#->_~ "),
        max_size=120,
    ),
    st.integers(8, 90),
)
def test_any_text_keeps_its_letters(text: str, width: int) -> None:
    out = COLOUR.sub("", shown(list(text), width))
    letters = [c for c in text if c.isalnum()]
    assert [c for c in out if c.isalnum()] == letters
    assert COLOUR.sub("", shown([text], width)) == out


TABLE = """Before.

| port | high | remark |
|:---|---:|---|
| **Brest** | 06:12 | the gates close one hour before, \\| so be early |
| 日本 | 4:05 |

After."""


@pytest.mark.parametrize("width", [30, 60, 80])
def test_a_table_is_in_columns_that_fit(width: int) -> None:
    for pieces in ([TABLE], list(TABLE)):
        lines = COLOUR.sub("", shown(pieces, width)).splitlines()
        assert all(cells(line) <= width for line in lines)
        assert (lines[0], lines[-1]) == ("Before.", "After.")
        head = next(line for line in lines if line.startswith("port"))
        brest = next(line for line in lines if line.startswith("Brest"))
        japan = next(line for line in lines if line.startswith("日本"))
        times = ((head, "high"), (brest, "06:12"), (japan, "4:05"))
        ends = [cells(line[: line.index(word) + len(word)]) for line, word in times]
        assert len(set(ends)) == 1  # aligned to the right
        assert sum(line.count("gates") for line in lines) == 1


@pytest.mark.parametrize("text", ["| no table", "|a|\n|b|\n", "a | b\nc | d", "|", "| a |\n|---|"])
def test_bars_alone_are_text(text: str) -> None:
    words = re.findall(r"\w+", text)
    assert re.findall(r"\w+", COLOUR.sub("", shown([text]))) == words


def test_a_table_whose_columns_have_no_room_is_text() -> None:
    table = "| name | number |\n|---|---:|\n| alpha and beta | 1 |\nend"
    lines = COLOUR.sub("", shown([table], 15)).splitlines()
    assert lines == ["| name | number", "|", "|---|---:|", "| alpha and", "beta | 1 |", "end"]


def test_a_table_that_is_too_wide_for_any_terminal_ends() -> None:
    line = "|" + " word |" * 40
    out = shown([f"{line}\n{'|---' * 40}|\n{line}\n"], 20)
    assert out.count("word") == 80


@pytest.mark.parametrize("line", ["```\n{}", "| {} |", "-{}", " {}x", "- - {}", "`{}", "word{}"])
def test_a_long_line_is_not_read_again_with_each_piece(line: str) -> None:
    read = 0

    class Counting(Markdown):
        def _line(self, line: str, *, ended: bool, newline: bool = True) -> str:
            nonlocal read
            read += len(line)
            return super()._line(line, ended=ended, newline=newline)

    text = line.format(line[0].replace("|", "x").replace("w", "x") * 6_000)
    page = Counting(lambda _: None, lambda: 60, colours=True)
    for piece in text:
        page.feed(piece)
    page.end()
    assert read < 2_100 * len(text)  # the most characters that wait for more


@pytest.mark.parametrize("word", ["x" * 9_000, "`" + "y" * 5_000 + "`", "**" + "z" * 5_000 + "**a"])
@pytest.mark.parametrize("begin", ["", "# ", "some words before it "])
def test_a_very_long_word_is_written_as_it_comes(word: str, begin: str) -> None:
    """To hold it back until it ends takes quadratic time: 80 KB took 8 seconds."""
    shown: list[list[str]] = []
    for size in (7, len(begin) + len(word)):
        pieces: list[str] = []
        page = Markdown(pieces.append, lambda: 80, colours=True)
        text = f"{begin}{word}"
        for at in range(0, len(text), size):
            page.feed(text[at : at + size])
        if size == 7:
            assert sum(map(len, pieces)) > len(word) - 2_100
        page.feed(" and after it")
        page.end()
        shown.append(["".join(pieces)])
    assert shown[0] == shown[1]


def test_a_terminal_gets_no_control_characters_of_a_text(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Such as that of a tool, which ``:expand`` shows: it could write to the clipboard."""
    with open(os.devnull, "rb") as nowhere:
        monkeypatch.setattr("sys.stdin", nowhere)
        screen = TerminalScreen()
    for text in ("one \x1b]52;c;eA==\x07", "two\nlines \x9b2J"):
        screen.text(text)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"one \\x1b]52;c;eA==\\x07\ntwo\nlines \\x9b2J\n"


def test_what_moves_or_reorders_text_is_made_visible() -> None:
    assert safe("\x1b[31m \u202egnp.exe \u202d\x9b") == r"\x1b[31m \u202egnp.exe \u202d\x9b"
    assert safe("\u05d0\u200f\n\t\u2028") == "\u05d0\u200f\n\t\u2028"
