"""The output of commands as a model is told of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.shell.outputs import Capture, clean, readable


def captured(*pieces: bytes, limit: int = 64) -> Capture:
    capture = Capture(limit)
    for piece in pieces:
        capture.add(piece)
    return capture


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2;0;0\x1b\\after", "after"),
        (b" 10%\r 55%\r100%\ndone", "100%\ndone"),
        (b"longer\rab", "abnger"),
        (b"abc\b\bX", "aXc"),
        (b"a\x07b\tc", "ab\tc"),
        ("naïve 🧑‍🚀".encode(), "naïve 🧑‍🚀"),
        (b"\x1b[?1049hthe editor's screen\x1b[?1049lback", "[a full-screen program]\nback"),
        (b"before \x1b[?1049hkilled in it", "before [a full-screen program]\n"),
        (b"never ended \x1b]0;title", "never ended "),
        (b"latin \xe9 once in a longer text", "latin \ufffd once in a longer text"),
    ],
)
def test_what_a_terminal_would_leave_on_paper(data: bytes, text: str) -> None:
    assert clean(data) == text


@pytest.mark.parametrize("data", [b"\x7fELF\x00\x01", b"a\x00", bytes(range(128, 256)), b"\x01\x02\x03ab"])
def test_binary_output_is_said_to_be_binary(data: bytes) -> None:
    assert clean(data) is None


@given(st.binary(max_size=200))
def test_nothing_that_moves_a_cursor_is_left(data: bytes) -> None:
    text = clean(data)
    if text is not None:
        assert not [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]


def test_head_and_tail_are_kept_and_the_gap_is_said() -> None:
    capture = captured(b"a" * 50, b"b" * 50, b"c" * 50, limit=64)
    assert (capture.size, capture.lost) == (150, 86)
    assert readable(capture) == f"{'a' * 32}\n[... 86 bytes left out ...]\n{'c' * 32}"


@given(st.lists(st.binary(max_size=40), max_size=12))
def test_a_capture_is_the_output_or_its_ends(pieces: list[bytes]) -> None:
    whole, capture = b"".join(pieces), captured(*pieces)
    assert capture.size == len(whole)
    if len(whole) <= 64:
        assert (capture.head + capture.tail, capture.lost) == (whole, 0)
    else:
        assert (capture.head, capture.tail) == (whole[:32], whole[-32:])
        assert capture.lost == len(whole) - 64


def test_a_long_line_of_escapes_takes_no_time() -> None:
    assert clean(b"\x1b[" * 200_000) == ""
    assert clean(b"\x1b]" * 200_000) == ""
