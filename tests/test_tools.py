"""The tools that `make check` relies on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants, notice


@pytest.mark.parametrize(
    ("license_name", "permissive"),
    [
        ("MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MPL-2.0 OR MIT", True),
        ("MIT AND PSF-2.0", True),
        ("MPL-2.0", False),
        ("MPL-2.0 AND MIT", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
        ("(MIT OR GPL-2.0-only) AND BSD-3-Clause", True),
        ("LGPL-3.0-only", False),
        ("not stated", False),
        ("Permissive, MIT like", False),
    ],
)
def test_what_is_permissive(license_name: str, permissive: bool) -> None:
    assert notice.is_permissive(license_name) is permissive


def test_the_lists_are_written_again_and_what_is_above_them_stays() -> None:
    text = notice.NOTICE.read_text(encoding="utf-8")
    by_hand = text.partition(notice.HEAD)[0]
    assert notice.notice(by_hand) == text == notice.notice(text)
    assert "psycopg" in text.removeprefix(by_hand)


def test_every_mutant_has_its_own_name_and_tests_that_are_there() -> None:
    found = mutants.read()
    assert len(found) >= 30
    assert len({mutant.name for mutant in found}) == len(found)
    for mutant in found:
        assert mutant.find != mutant.put
        assert mutant.tests
        assert all(Path(mutants.ROOT, test).exists() for test in mutant.tests), mutant.name


def test_a_mutant_that_does_not_apply_is_said() -> None:
    for find in ("no such text is anywhere", "import"):
        with pytest.raises(mutants.DoesNotApply, match="must be in one place"):
            mutants.Mutant("name", find, "", ()).place()
