"""What importing tokenbox gives and costs, and who may import whom."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import grimp
import pytest

import tokenbox

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tokenbox"

# None of these is needed to say what a section or a layout is. (lzma is how vocabularies are packed.)
HEAVY = {
    *(
        "asyncio",
        "blake3",
        "detect_secrets",
        "fastokens",
        "gguf",
        "http",
        "importlib.metadata",
        "jsonschema",
        "llama_models",
        "lzma",
    ),
    *(
        "mistral_common",
        "numpy",
        "re2",
        "regex",
        "rich",
        "sentencepiece",
        "socket",
        "sqlite3",
        "ssl",
    ),
    *(
        "tiktoken",
        "tokenizers",
        "tree_sitter",
        "tree_sitter_language_pack",
        "typer",
        "urllib.request",
        "yaml",
        "zstandard",
    ),
}

# Runs alone in a fresh interpreter: what was opened and loaded on the way.
WATCH = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
before = set(sys.modules)
import tokenbox
print(json.dumps({"opened": opened, "loaded": sorted(set(sys.modules) - before), "file": tokenbox.__file__}))
"""


def printed_by(program: str, *arguments: str) -> str:
    """Return what a program prints in a new process, in which nothing was imported before."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def fresh_import() -> dict[str, list[str]]:
    seen: dict[str, list[str]] = json.loads(printed_by(WATCH))
    return seen


def test_importing_loads_no_heavy_module(fresh_import: dict[str, list[str]]) -> None:
    assert "tokenbox" in fresh_import["loaded"]
    assert sorted(HEAVY.intersection(fresh_import["loaded"])) == []


def test_importing_reads_no_data(fresh_import: dict[str, list[str]]) -> None:
    ours = [Path(path) for path in fresh_import["opened"] if Path(path).is_relative_to(PACKAGE)]
    assert ours, "the watch sees nothing: it should have seen __init__.py"
    assert [path for path in ours if path.suffix not in {".py", ".pyc"}] == []


def test_all_is_what_is_exported() -> None:
    assert len(set(tokenbox.__all__)) == len(tokenbox.__all__)
    values = {
        name: getattr(tokenbox, name) for name in tokenbox.__all__
    }  # AttributeError: named, but not there
    assert [name for name, value in values.items() if isinstance(value, ModuleType)] == []
    public = {
        name
        for name, value in vars(tokenbox).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - {"annotations", "TYPE_CHECKING"} <= set(tokenbox.__all__)


PARTS = """
import json, sys
import tokenbox
found = {name: getattr(tokenbox, name).__name__ for name in json.loads(sys.argv[1])}
print(json.dumps([found, sorted(set(found) - set(dir(tokenbox))), hasattr(tokenbox, "no_such_part")]))
"""


def test_the_parts_are_there_after_import_tokenbox() -> None:
    """``tokenbox.ctx.estimate(...)``, as the documents write it, with no other import."""
    names = ["ctx", "tokenizers", "override", "catalog", "config", "proof", "conversation"]
    names += ["lcp", "documents", "models", "folder", "ledger", "providers", "store", "inspect"]
    run = subprocess.run(
        [sys.executable, "-c", PARTS, json.dumps(names)], capture_output=True, text=True, check=True
    )
    expected = {name: f"tokenbox.{name}" for name in names} | {"override": "tokenbox.policy.override"}
    assert json.loads(run.stdout) == [expected, [], False]


def test_the_version_is_stated_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", tokenbox.__version__)


LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(where: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of ``where/pyproject.toml`` on the package in ``where/src``."""
    return subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=where,
        env={"PYTHONPATH": str(where / "src"), "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_modules_import_only_from_the_lines_below() -> None:
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_files_import_each_other_in_a_circle() -> None:
    """Not even on use: a circle would hide behind an import in a function."""
    graph = grimp.build_graph("tokenbox", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which has the circle


def test_every_module_has_its_line() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = {
        name
        for c in contracts
        if c["id"] == "layers"
        for line in c["layers"]
        for name in re.findall(r"\w+", line)
    }
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert modules - layers - {"__about__", "__init__", "__main__"} == set()


def test_wrong_imports_are_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        PACKAGE, tmp_path / "src" / "tokenbox", ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    errors = tmp_path / "src" / "tokenbox" / "errors.py"
    errors.write_text(f"{errors.read_text()}\nimport tokenbox.content\nimport os\nfrom pathlib import Path\n")
    run = lint_imports(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    for name in ("tokenbox.content", "os", "pathlib"):
        assert f"tokenbox.errors -> {name} (" in run.stdout, run.stdout


def test_counting_a_text_loads_neither_layouts_nor_chat_formats() -> None:
    count = "import sys; from tokenbox.cli import main; main(['count', sys.argv[1]]); print(*sys.modules)"
    loaded = set(printed_by(count, str(ROOT / "README.md")).split())
    assert "tokenbox.counters" in loaded
    assert not {"tokenbox.api", "tokenbox.compose.sections", "tokenbox.conversation"} & loaded


def test_a_decision_without_proof_does_not_load_what_proves_it() -> None:
    program = """
import sys
from tokenbox import ctx, fit
ctx.enforce("gpt-5", ["a"], max_ctx=100, tokenizer="utf8-bytes")
fit([{"role": "user", "content": "a"}], 100, "utf8-bytes")
print(*[name for name in sys.modules if name.startswith(("tokenbox.proof.", "tokenbox.lcp"))])
"""
    assert printed_by(program).split() == ["tokenbox.proof.proven"]


def test_the_guard_loads_nothing_that_fits_or_ranks() -> None:
    """They would be a fifth of the time that ``from tokenbox import ctx`` takes."""
    program = """
import sys
from tokenbox import ctx
ctx.enforce("gpt-5", ["a"], max_ctx=100, tokenizer="utf8-bytes")
print(*sys.modules)
"""
    loaded = set(printed_by(program).split())
    assert "tokenbox.policy.packing" in loaded
    assert not {"tokenbox.conversation.fitting", "tokenbox.worth", "re2", "rfc8785"} & loaded


def test_reading_the_settings_does_not_load_what_writes_them() -> None:
    loaded = set(printed_by("import sys, tokenbox; tokenbox.config.load(); print(*sys.modules)").split())
    assert "tokenbox.config.loading" in loaded
    assert not {"tokenbox.config.writing", "tomlkit"} & loaded


def test_the_store_does_not_load_the_tables_of_the_gateway() -> None:
    loaded = set(printed_by("import sys, tokenbox.store.stores; print(*sys.modules)").split())
    assert "tokenbox.store.calls" in loaded
    assert not {"tokenbox.store.keys", "tokenbox.store.owners"} & loaded


def test_type_checkers_know_every_module_that_is_imported_on_first_use() -> None:
    source = (PACKAGE / "__init__.py").read_text()
    known = set(re.findall(r"^    from tokenbox import (\w+) as \1$", source, re.MULTILINE))
    assert known | {"override"} == set(tokenbox._PARTS)  # type: ignore[attr-defined]  # noqa: SLF001


def test_packing_loads_no_counters_of_requests(tmp_path: Path) -> None:
    """They would be a sixth of the time that its imports take."""
    (tmp_path / "a.py").write_text("def a():\n    return 1\n")
    pack = "import sys; from tokenbox.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    loaded = set(printed_by(pack, "pack", str(tmp_path), "--no-cache").split())
    assert "tokenbox.folder.packing" in loaded
    assert not {"tokenbox.compose.bound", "tokenbox.counters", "tokenbox.models"} & loaded
