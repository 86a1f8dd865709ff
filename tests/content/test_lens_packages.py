"""A lens from an installed package: one module and one entry point, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from tokenbox.content.lenses import register_lens

register_lens("vowels", lambda text: "".join(c for c in text if c in "aeiou"), version="3")
"""
ENTRY_POINTS = """[tokenbox.lenses]
vowels = loud_lenses
broken = broken_lenses
silent = silent_lenses
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What an installer leaves behind: modules, and the metadata that names the entry points."""
    (tmp_path / "loud_lenses.py").write_text(MODULE)
    (tmp_path / "broken_lenses.py").write_text("import no_such_module\n")
    (tmp_path / "silent_lenses.py").write_text("")
    info = tmp_path / "loud_lenses-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-lenses\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    return subprocess.run(
        [sys.executable, "-m", "tokenbox", *arguments],
        cwd=package,
        env={"PYTHONPATH": f"{source}:{package}"},
        capture_output=True,
        text=True,
        check=False,
    )


def document(package: Path, strategy: str) -> str:
    (package / "doc.toml").write_text(
        'budget = 4\ntokenizer = "utf8-bytes"\n[[sections]]\n'
        f'id = "a"\ncontent = "tokenbox"\nshrink = 1\nstrategy = "{strategy}"\n'
    )
    return "doc.toml"


def test_a_package_adds_a_lens_with_one_file(package: Path) -> None:
    done = run(package, "layout", document(package, "vowels"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "oeo", "")


def test_built_in_lenses_need_no_package_to_load(package: Path) -> None:
    done = run(package, "layout", document(package, "squeeze |> head(tokens=3)"))
    assert (done.returncode, done.stdout) == (0, "tok")


@pytest.mark.parametrize(
    ("lens", "said"),
    [
        ("broken", "the lens 'broken' of broken_lenses cannot be loaded: ModuleNotFoundError"),
        ("silent", "silent_lenses provides a lens 'silent' but does not register it"),
        ("vowel", "did you mean 'vowels'?"),
    ],
)
def test_what_is_wrong_with_a_package_is_said(package: Path, lens: str, said: str) -> None:
    done = run(package, "layout", document(package, lens))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
