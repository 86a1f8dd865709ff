"""A package adds a renderer with one file and one entry point."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tokenbox.errors import RenderError
from tokenbox.render.minimal import MINIMAL
from tokenbox.render.registry import find_renderer, register_renderer, renderer_names
from tokenbox.render.templates import Markup

MODULE = '''
"""Blocks as an org-mode document."""
from dataclasses import replace

from tokenbox.render.minimal import MINIMAL, TEMPLATES
from tokenbox.render.registry import register_renderer
from tokenbox.content.block_kinds import BlockType
from tokenbox.render.templates import BlockTemplate

ORG = replace(
    MINIMAL,
    name="org",
    templates={**TEMPLATES, BlockType.DOCUMENT: BlockTemplate("* {title}\\n", "", "* {title} (summary)\\n")},
    omitted="# omitted: {label} {description}, {tokens} tokens",
)
register_renderer(ORG)
'''
ENTRY_POINTS = "[tokenbox.renderers]\norg = org_renderer\nbroken = broken_renderer\n"
PROGRAM = """
import tokenbox
from tokenbox.content.block_kinds import FormatHint
from tokenbox.content.blocks import DocumentBlock
block = DocumentBlock("Tides", b"At noon.", FormatHint.PLAIN)
print(tokenbox.render_blocks([block], "utf8-bytes", mode="org").text)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What an installer leaves behind: modules, and the metadata that names the entry points."""
    (tmp_path / "org_renderer.py").write_text(MODULE)
    (tmp_path / "broken_renderer.py").write_text("import no_such_module\n")
    info = tmp_path / "org_renderer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: org-renderer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


def run(package: Path, program: str) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=package,
        env={"PYTHONPATH": f"{source}:{package}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_package_adds_a_renderer_with_one_file(package: Path) -> None:
    done = run(package, PROGRAM)
    assert (done.stdout, done.stderr) == ("* Tides\nAt noon.\n", "")


def test_the_command_line_takes_it_too(package: Path) -> None:
    (package / "notes.txt").write_text("At noon.\n")
    program = (
        "from tokenbox.cli import main\n"
        "print(*[main(['pack', 'notes.txt', '--format', name]) for name in ('org', 'html')])"
    )
    done = run(package, program)
    assert done.stdout.endswith("At noon.\n0 2\n")
    assert "'html' is not one of 'xml', 'markdown', 'minimal', 'broken', 'org', 'json', 'bcp'." in done.stderr


def test_a_renderer_that_cannot_be_loaded_is_named(package: Path) -> None:
    done = run(package, PROGRAM.replace('"org"', '"broken"'))
    assert "the renderer 'broken' of broken_renderer cannot be loaded" in done.stderr


def test_names() -> None:
    assert renderer_names()[:3] == ("xml", "markdown", "minimal")
    with pytest.raises(RenderError, match="mode is one of xml, markdown, minimal, not 'html'"):
        find_renderer("html")
    other = Markup(**{name: getattr(MINIMAL, name) for name in MINIMAL.__slots__})
    with pytest.raises(RenderError, match="already"):
        register_renderer(other)
    register_renderer(MINIMAL)  # the same again is not a conflict
