"""One small document per mistake, in cases/, with the whole message it gives in tests/golden/documents/."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tokenbox.documents import DocumentCode, read_document
from tokenbox.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_file())

# What a file in a repository cannot be: a pipe, or very large. test_files.py makes them.
MADE_ELSEWHERE = {DocumentCode.FILE_TOO_LARGE}


def refusal(name: str, monkeypatch: pytest.MonkeyPatch) -> DocumentError:
    monkeypatch.chdir(CASES)  # so that messages have the name alone
    with pytest.raises(DocumentError) as caught:
        read_document(name)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_each_mistake_has_one_clear_message(
    name: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refusal(name, monkeypatch)
    golden(f"documents/{name}.txt", f"{error.code}\n{error}\n")


@pytest.mark.parametrize("name", NAMES)
def test_each_error_is_plain_data_with_its_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(name, monkeypatch)
    data = error.to_dict()
    assert data["code"] in list(DocumentCode)
    assert data["file"] == name
    assert data["line"] == error.line
    assert data["path"] == error.path


def test_every_code_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {refusal(name, monkeypatch).code for name in NAMES}
    assert seen | MADE_ELSEWHERE == set(DocumentCode)


# Where the line is not known, in a file that has lines. Everything else has one.
WITHOUT_LINE = {
    *("unknown_format.ini", "bad_utf8.json"),  # not read as far as a line
    *("not_a_mapping.json", "not_a_mapping.yaml", "empty.toml", "no_sections.toml"),  # about the whole
}


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (refusal(name, monkeypatch).line is None) == (name in WITHOUT_LINE)
