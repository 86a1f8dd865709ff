"""Pastes in the line editor: long ones fold into a mark and come out whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tokenbox.shell.editor import FOLDED_CHARACTERS, FOLDED_LINES, Pastes, open_history

if TYPE_CHECKING:
    from pathlib import Path


def test_a_short_paste_stands_as_it_is() -> None:
    pastes = Pastes()
    assert pastes.folded("a\r\nb") == "a\nb"
    assert pastes.unfolded("say a\nb") == "say a\nb"


def test_a_long_paste_is_one_mark() -> None:
    pastes = Pastes()
    log = "\n".join(f"line {n}" for n in range(FOLDED_LINES + 1))
    mark = pastes.folded(log)
    assert mark == f"[paste 1: 9 lines, {len(log)} characters]"
    assert pastes.folded("x" * (FOLDED_CHARACTERS + 1)) == "[paste 2: 1 line, 1,001 characters]"
    assert pastes.unfolded(f"what is wrong in {mark}?") == f"what is wrong in {log}?"


@settings(max_examples=examples(40))
@given(st.lists(st.text(max_size=40).map(lambda t: t * 40), max_size=4))
def test_whatever_was_pasted_comes_out(texts: list[str]) -> None:
    pastes = Pastes()
    marks = [pastes.folded(text) for text in texts]
    whole = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    for mark, text in zip(marks, whole, strict=True):
        assert pastes.unfolded(mark) == text or mark == text


def test_a_history_is_readable_by_its_owner_only_and_never_waited_for(tmp_path: Path) -> None:
    assert open_history(tmp_path / "made" / "history", Pastes(), str) is not None
    assert (tmp_path / "made" / "history").stat().st_mode & 0o777 == 0o600
    os.mkfifo(tmp_path / "pipe")
    assert open_history(tmp_path / "pipe", Pastes(), str) is None


def test_a_placeholder_is_in_the_history_of_its_own_process_only(tmp_path: Path) -> None:
    pastes = Pastes()
    history = open_history(tmp_path / "history", pastes, str)
    assert history is not None
    lines = ["hello", f"what is {pastes.folded('x' * FOLDED_CHARACTERS * 2)}?"]
    for line in lines:
        history.append_string(line)
    assert sorted(history.get_strings()) == sorted(lines)
    again = open_history(tmp_path / "history", Pastes(), str)
    assert again is not None
    assert list(again.load_history_strings()) == ["hello"]
