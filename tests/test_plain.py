"""No page, help text, message or docstring has a phrase to be read twice."""

from __future__ import annotations

import pytest

from tools import sentences


@pytest.mark.slow
def test_pages_messages_and_docstrings_read_plainly() -> None:
    assert sentences.hard_to_read() == []


@pytest.mark.parametrize(
    "text",
    [
        "It waits so many seconds for an answer.",
        "A line that is used, of which two are left.",
        "Read it anew and give it to whoever asks.",
    ],
)
def test_such_a_phrase_is_found(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "sentences", lambda: [("docs/x.md", text)])
    assert sentences.hard_to_read()


@pytest.mark.slow
def test_sentences_are_drawn_from_pages_help_and_messages() -> None:
    every = sentences.sentences()
    texts = {text for _, text in every}
    assert len(every) > 5_000
    assert "Install it with `pip install --editable .` in its folder." in texts  # a page
    assert "The others are counted, and the exit status is 2." not in texts
    assert any(
        place.startswith("src/tokenbox/errors.py") and "lone surrogate" in text for place, text in every
    )
