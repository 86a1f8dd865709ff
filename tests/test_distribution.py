"""What is installed, under which name: no hint may install the other project that is called tokenbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.services import free_port
from tests.waiting import SECONDS
from tokenbox.__about__ import DISTRIBUTION
from tokenbox.cli import doctor, main
from tokenbox.errors import MissingExtra
from tokenbox.lcp.addressing import body_digest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

# A requirement on the name itself: an extra of it, what pip or uv installs, what a YAML list requires.
STRANGER = re.compile(
    r"(?<![\w./-])tokenbox\\?\[[a-z]"
    r"|(?:pip3? install|uv add|uv pip install|uvx|uv tool install|pipx install|pipx run)"
    r"(?:\s+-[\w-]+)*\s+['\"]?tokenbox(?![\w-])"
    r"|dependencies:\s*\[?[^\]\n]*(?<![\w./-])tokenbox(?![\w-])"
)
HINT = re.compile(re.escape(DISTRIBUTION) + r"\[([a-z0-9,]+)\]")


def texts() -> list[tuple[str, str]]:
    """All files of the project that people or tools read hints from."""
    folders = ("src", "docs", "examples", "tests", "tools", "bench", "requirements", ".github")
    suffixes = {".py", ".md", ".yml", ".yaml", ".toml", ".txt", ".in", ".json", ".cfg", ""}
    files = [path for path in ROOT.iterdir() if path.is_file() and path.suffix in suffixes]
    files += [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in suffixes]
    kept = (p for p in files if p.is_file() and p != Path(__file__) and "node_modules" not in p.parts)
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace"))
        for path in kept
        if not any(part.startswith(".venv") for part in path.parts)
    ]


def test_the_distribution_has_its_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION == "tokenbox-llm"
    assert PROJECT["scripts"] == {"tokenbox": "tokenbox.cli:main"}


def test_no_hint_installs_another_project() -> None:
    read = texts()
    assert len(read) > 300
    found = [f"{name}: {match[0]}" for name, text in read for match in STRANGER.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "hint",
    [
        "pip install tokenbox",
        "pip install 'tokenbox[fast]'",
        "uvx tokenbox count",
        "additional_dependencies: [tokenbox]",
        "pip install -U tokenbox",
        'all = ["tokenbox[fast]"]',
    ],
)
def test_a_wrong_hint_is_found(hint: str) -> None:
    assert STRANGER.search(hint)
    assert not STRANGER.search(hint.replace("tokenbox", "tokenbox-llm"))


def test_every_extra_that_a_hint_names_is_there() -> None:
    named = {extra for _, text in texts() for match in HINT.finditer(text) for extra in match[1].split(",")}
    assert {"fast", "gateway", "shell"} <= named <= EXTRAS.keys()
    used = {m[1] for name, text in texts() if name.startswith("src") for m in RAISED.finditer(text)}
    assert {"bcp", "gateway", "files"} <= used <= EXTRAS.keys()


RAISED = re.compile(r"(?:MissingExtra\.of|\bneeding)\([^()]*?\"([a-z0-9]+)\"\)")


def test_all_is_all_extras() -> None:
    (everything,) = EXTRAS["all"]
    assert set(HINT.fullmatch(everything)[1].split(",")) == EXTRAS.keys() - {"all"}  # type: ignore[index]


def test_doctor_knows_every_extra(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert doctor.EXTRAS.keys() == EXTRAS.keys() - {"all"}
    assert list(doctor.EXTRAS) == sorted(doctor.EXTRAS)
    assert main(["doctor", "--json", "gpt-4o", "nosuch"]) == 0
    told = json.loads(capsysbinary.readouterr().out)
    assert [(m["model"], m["text_exact"], m["chat_exact"]) for m in told["models"]] == [
        ("gpt-4o", True, True),
        ("nosuch", False, False),
    ]
    assert {extra["name"]: extra["installed"] for extra in told["extras"]}["gateway"] is True
    assert all(extra["remedy"] is None or DISTRIBUTION in extra["remedy"] for extra in told["extras"])


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("qwen2.5-7b", b"""tokenbox config set 'models."qwen2.5-7b".tokenizer' file:PATH"""),
        ("claude-sonnet-4-5", b""),
    ],
)
def test_doctor_says_how_an_estimate_becomes_exact_where_it_can(
    model: str, hint: bytes, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["doctor", model]) == 0
    shown = capsysbinary.readouterr().out
    assert hint in shown
    assert (b"model's own files" in shown) == bool(hint)


def test_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "fastokens":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(doctor, "version", version)
    missing = {extra.name: extra.remedy for extra in doctor.installed_extras() if extra.missing}
    assert missing == {"fast": "pip install 'tokenbox-llm[fast]'"}


def test_the_error_is_a_sentence_and_a_command() -> None:
    error = MissingExtra.of("the lens outline", "outline")
    assert str(error) == (
        "the lens outline needs an optional package. Run: pip install 'tokenbox-llm[outline]'"
    )
    assert error.to_dict()["remedies"] == ["pip install 'tokenbox-llm[outline]'"]


LENS = '{{"budget": 9, "sections": [{{"id": "a", "content": "x", "strategy": "{}"}}]}}'
# By extra: a package that it brings, and the arguments of a command that needs it.
NEEDED_BY = [
    ("bcp", "zstandard", ["pack", "long.txt", "--format", "bcp", "-o", "p.bcp"]),
    ("fast", "fastokens._native", ["count", "--engine", "fast", "long.txt"]),
    ("outline", "tree_sitter", ["layout", "outline.json"]),
    ("html", "markdownify", ["layout", "html_to_text.json"]),
    ("files", "tokenizers", ["count", "-t", "file:tokenizer.json", "long.txt"]),
    ("files", "sentencepiece", ["count", "-t", "file:a.model", "long.txt"]),
    ("llama3", "llama_models", ["count", "-t", "llama3-bpe", "long.txt"]),
    ("sign", "securesystemslib", ["proof", "keygen", "key"]),
    ("shell", "httptools", ["ask", "--endpoint", "http://127.0.0.1:9", "--model", "m", "hello"]),
    ("gateway", "uvicorn", ["serve", "--upstream", "http://127.0.0.1:9", "--port", "PORT"]),
    ("gateway", "psycopg", ["cost", "--database", "postgresql://127.0.0.1:9/x"]),
    ("otel", "opentelemetry", ["serve", "--upstream", "http://127.0.0.1:9", "--port", "PORT"]),
]
RUN = """
import sys
for name in [n for n in sys.modules if n.split('.')[0] == sys.argv[1]]: del sys.modules[name]
sys.modules[sys.argv[1]] = None
from tokenbox.cli import main
sys.exit(main(sys.argv[2:]))
"""
SAID = re.compile(
    r"error: [a-z][^\n]* needs an optional package\. Run: pip install '(\S+)\[(\w+)\]' \(missing_extra\)\n"
)


@pytest.mark.parametrize(
    ("extra", "package", "arguments"), NEEDED_BY, ids=[f"{e}-{p}" for e, p, _ in NEEDED_BY]
)
@pytest.mark.slow
def test_without_an_extra_every_command_says_the_same(
    tmp_path: Path, extra: str, package: str, arguments: list[str]
) -> None:
    (tmp_path / "long.txt").write_text("the same words again and again\n" * 99)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {}, "merges": []}}')
    (tmp_path / "a.model").write_bytes(b"\n\x05")
    for lens in ("outline", "html_to_text"):
        (tmp_path / f"{lens}.json").write_text(LENS.format(lens))
    port = str(free_port())
    run = subprocess.run(
        [sys.executable, "-c", RUN, package, *(port if each == "PORT" else each for each in arguments)],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("TOKENBOX_TEST_")},
            "HOME": str(tmp_path),
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9" if extra == "otel" else "",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    said = SAID.fullmatch(run.stderr)
    assert said is not None, run.stderr
    assert said.groups() == (DISTRIBUTION, extra)
    assert run.returncode == 2
    assert run.stdout == "" or arguments[0] == "serve"  # which says where it listens before it makes traces


def test_a_pack_with_references_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blake3", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tokenbox-llm\[bcp\]'"):
        body_digest(b"x")
