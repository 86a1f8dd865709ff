"""Outlines of source code, language by language."""

from __future__ import annotations

import importlib.util
import inspect
import json.decoder
import socket

import pytest

from tokenbox.content.lenses import outline, parse_pipeline
from tokenbox.errors import LensSyntaxError, MissingExtra
from tokenbox.tokenizers.utf8 import Utf8Bytes

pytest.importorskip("tree_sitter", reason="the extra outline is not installed")
BYTES = Utf8Bytes()
BODY = "\n".join(f"    call({i});" for i in range(20))

SOURCES = {
    "python": (
        'import os\n\n@wraps\ndef f(a: int) -> int:\n    """\n    What f does.\n    """\n'
        + BODY.replace(";", "")
        + "\n\nclass A(B):\n    async def g(self):\n        x = 1\n        def inner():\n            pass\n",
        [
            "@wraps",
            "def f(a: int) -> int:",
            '    """What f does."""',
            "class A(B):",
            "    async def g(self):",
        ],
    ),
    "javascript": (
        "import x from 'x';\n// Adds.\nexport function add(a, b) {\n"
        + BODY
        + "\n}\nconst f = (a) => {\n  return 1;\n};\nclass A extends B {\n  m() { return 2; }\n}\n",
        ["// Adds.", "export function add(a, b)", "const f = (a) =>", "class A extends B", "  m()"],
    ),
    "typescript": (
        "export interface I {\n  m(a: string): void;\n}\n/** Adds. */\n"
        "export function add(a: number): number {\n" + BODY + "\n}\n",
        ["export interface I", "  m(a: string): void", "// Adds.", "export function add(a: number): number"],
    ),
    "go": (
        "package p\n\n// F does.\nfunc F(a int) int {\n"
        + BODY
        + "\n}\n\ntype T struct {\n\tA int\n}\n\nfunc (t T) M() {}\n",
        ["// F does.", "func F(a int) int", "type T struct", "func (t T) M()"],
    ),
    "rust": (
        "use std::fmt;\n/// Does.\n#[inline]\npub fn f(a: u8) -> u8 {\n"
        + BODY
        + "\n}\nimpl T {\n    fn m(&self) {}\n}\n",
        ["// Does.", "pub fn f(a: u8) -> u8", "impl T", "    fn m(&self)"],
    ),
    "java": (
        "package a.b;\npublic class A {\n  /** Does. */\n  public int f(int a) {\n" + BODY + "\n  }\n}\n",
        ["public class A", "  // Does.", "  public int f(int a)"],
    ),
    "c": (
        "#include <stdio.h>\n#define N 1\n/* Does. */\nstatic int f(int a) {\n"
        + BODY
        + "\n}\nint g(void);\n",
        ["// Does.", "static int f(int a)", "int g(void);"],
    ),
    "cpp": (
        "#include <vector>\nnamespace n {\ntemplate <class T>\nT f(std::vector<T> a) {\n" + BODY + "\n}\n}\n",
        ["namespace n", "template <class T>", "T f(std::vector<T> a)"],
    ),
    "ruby": (
        "require 'x'\n\nclass A < B\n  # Does.\n  def f(a)\n" + BODY.replace(";", "") + "\n  end\nend\n",
        ["class A < B", "  # Does.", "  def f(a)"],
    ),
}


def seen(spelling: str, text: str) -> str:
    return parse_pipeline(spelling).apply(text, BYTES)


@pytest.mark.parametrize("language", SOURCES)
def test_the_signatures_of(language: str) -> None:
    source, signatures = SOURCES[language]
    header, *lines = seen(f"outline('{language}')", source).splitlines()
    assert header == f"[outline of {language} source, {len(source.splitlines())} lines]"
    assert lines == signatures


@pytest.mark.parametrize("language", SOURCES)
def test_the_language_is_recognized(language: str) -> None:
    source, _ = SOURCES[language]
    assert seen("outline", source) == seen(f"outline('{language}')", source)


def test_a_real_module() -> None:
    source = inspect.getsource(json.decoder)
    result = seen("outline", source)
    assert "    def raw_decode(self, s, idx=0):\n" in result
    assert len(result) < len(source) / 3
    assert seen("outline", result) == result


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain words. import nothing, class of its own.\n" * 20,
        "def f(:\n    broken\n" + "    x = (\n" * 20,
        "\ud800 def f(x):\n    pass\n",
    ],
)
def test_what_is_no_source_is_unchanged(text: str) -> None:
    assert seen("outline", text) == text
    assert seen("outline('python')", text) == text


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an outline opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    outline._grammar.cache_clear()  # noqa: SLF001
    for language, (source, _) in SOURCES.items():
        assert seen(f"outline('{language}')", source) != source


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(LensSyntaxError, match="did you mean 'python'"):
        parse_pipeline("outline('pyton')")


def test_without_the_extra_the_pipeline_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "find_spec", lambda _: None)
    parse_pipeline.cache_clear()
    with pytest.raises(MissingExtra, match=r"tokenbox\[outline\]"):
        parse_pipeline("outline")
    assert importlib.util.find_spec("tree_sitter")
