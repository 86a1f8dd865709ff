"""Outlines of source code, language by language."""

from __future__ import annotations

import importlib.util
import inspect
import json.decoder
import re
import socket
import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.content.lensed import BYTES, seen
from tests.content.odd_source import BETWEEN, ODD
from tokenbox.content.lenses import outline, parse_pipeline
from tokenbox.content.lenses.definitions import definitions
from tokenbox.content.lenses.headed import names
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.outline import signatures
from tokenbox.content.lenses.syntax import grammar, syntax_tree
from tokenbox.errors import LensSyntaxError, MissingExtra
from tokenbox.folder.pieces import shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenbox.content.lenses.definition import Definition

pytest.importorskip("tree_sitter", reason="the extra outline is not installed")
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
        + "\n}\n\ntype T struct {\n\tA int\n}\n\nfunc (t T) M() {}\n"
        "const (\n\tOne = 1\n\t// Half of it.\n\tTwo = 2\n)\n\n"
        "type (\n\tU struct {\n\t\tB int\n\t}\n\tV = string\n)\n",
        [
            *("// F does.", "func F(a int) int", "type T struct", "\tA int", "func (t T) M()"),
            *("const (", "\tOne = 1", "\t// Half of it.", "\tTwo = 2"),
            *("type (", "\tU struct", "\t\tB int", "\tV = string"),
        ],
    ),
    "rust": (
        "use std::fmt;\n/// Does.\n#[inline]\npub fn f(a: u8) -> u8 {\n"
        + BODY
        + "\n}\nimpl T {\n    fn m(&self) {}\n}\npub struct Meters(pub u32, String);\n",
        [
            "// Does.",
            "pub fn f(a: u8) -> u8",
            "impl T",
            "    fn m(&self)",
            "pub struct Meters(pub u32, String);",
        ],
    ),
    "java": (
        "package a.b;\npublic class A {\n  /** Does. */\n  public int f(int a) {\n" + BODY + "\n  }\n}\n",
        ["public class A", "  // Does.", "  public int f(int a)"],
    ),
    "c": (
        "#include <stdio.h>\n#define N 1\n/* Does. */\nstatic int f(int a) {\n"
        + BODY
        + "\n}\nint g(void);\n",
        ["#define N 1", "// Does.", "static int f(int a)", "int g(void);"],
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
        "\ud800 def f(x):\n    pass\n",
    ],
)
def test_what_is_no_source_is_unchanged(text: str) -> None:
    assert seen("outline", text) == text
    assert seen("outline('python')", text) == text


MEMBERS = {
    "csharp": (
        """
namespace N {
  /// <summary>Does.</summary>
  public class A : B {
    const int K = 1;
    public int P { get; set; }
    public int F(int a) { return a; }
  }
  enum E { X, Y }
}
""",
        ["const int K = 1;", "public int P { get; set; }", "public int F(int a)", "enum E { X, Y }"],
    ),
    "php": (
        """
<?php
class A extends B {
  const K = 1;
  public $x = 2;
  public function f(int $a): int { return $a; }
}
""",
        ["class A extends B", "const K = 1;", "public $x = 2;", "public function f(int $a): int"],
    ),
    "swift": (
        """
class A: B {
  let x = 1
  func f(_ a: Int) -> Int { return a }
}
enum E { case a, b }
typealias T = Int
""",
        ["class A: B", "let x = 1", "func f(_ a: Int) -> Int", "enum E { case a, b }", "typealias T = Int"],
    ),
    "kotlin": (
        """
class A(val x: Int) {
    val y = 3
    fun f(a: Int): Int { return a }
}
typealias T = Int
""",
        ["class A(val x: Int)", "val y = 3", "fun f(a: Int): Int", "typealias T = Int"],
    ),
    "scala": (
        """
class A(x: Int) {
  val y = 3
  def f(a: Int): Int = { a }
}
object Q { def z = 1 }
""",
        ["class A(x: Int)", "val y = 3", "def f(a: Int): Int =", "object Q"],
    ),
    "lua": (
        """
local M = {}
function M.f(a)
  return a
end
local K = 1
""",
        ["function M.f(a)", "local K = 1"],
    ),
    "css": (
        """
.a { color: red; }
@media (x: y) { .b { c: d } }
:root {
  color: red;
  /* the brand */
  --brand: #fff;
}
""",
        [".a", ".b", ":root", "// the brand", "--brand: #fff;"],
    ),
    "sql": (
        """
CREATE TABLE a (
  id int primary key
);
CREATE VIEW v AS SELECT 1;
""",
        ["CREATE TABLE a (", "id int primary key", "CREATE VIEW v AS SELECT 1"],
    ),
    "typescript": (
        """
export type T = { a: string }
export const K = 3
export enum E { A, B }
export class C {
  private x = 1
  go = (a: number) => {
    return a
  }
}
""",
        [
            "export type T = { a: string }",
            "export const K = 3",
            "export enum E { A, B }",
            "private x = 1",
            "go = (a: number) =>",
        ],
    ),
    "java": (
        """
class A {
  static final int K = 1;
  int f() { return 1; }
}
enum E { X, Y; int g() { return 2; } }
""",
        ["static final int K = 1;", "int f()", "X", "int g()"],
    ),
    "rust": (
        """
pub const K: u8 = 1;
pub enum E { A(u8), B }
pub struct S { pub x: u8 }
type T = u8;
""",
        ["pub const K: u8 = 1;", "pub enum E { A(u8), B }", "pub struct S { pub x: u8 }", "type T = u8;"],
    ),
    "python": (
        """
LIMIT = 3
class Color(Enum):
    RED = 1
    x: int = 2
    def f(self):
        return 1
""",
        ["LIMIT = 3", "RED = 1", "x: int = 2", "def f(self):"],
    ),
}


@pytest.mark.parametrize("language", MEMBERS)
def test_members_stay(language: str) -> None:
    source, wanted = MEMBERS[language]
    pytest.importorskip(BY_NAME[language].module)
    padded = source + "\n" * 40
    lines = [line.strip() for line in seen(f"outline('{language}')", padded).splitlines()]
    for line in wanted:
        assert line in lines


SIGNATURES = {
    "rust": [
        "pub trait T {\n    fn go(\n        &self,\n        a: u8,\n    ) -> u8;\n}",
        "pub struct P(\n    pub u8,\n    pub String,\n);",
        "pub type R<T> =\n    Result<T, Error>;",
        "pub enum E {\n    A {\n        x: u8,\n    },\n}",
    ],
    "c": ["int do_it(int a,\n          char *b);", "typedef int (*cb)(int a,\n                  int b);"],
    "cpp": ["class A {\n  template <typename T>\n  T get(int a,\n        int b);\n};"],
    "java": ["interface I {\n    @GetMapping\n    X go(\n        int a,\n        String b) throws A;\n}"],
    "typescript": [
        "type U =\n  | 'a'\n  | 'b';",
        "interface I {\n  go(\n    a: string,\n  ): void;\n  in: {\n    a: string;\n  };\n}",
        "export declare function x(\n  a: string,\n): void;",
        "declare module 'm' {\n  export function y(\n    a: string,\n  ): void;\n}",
    ],
    "kotlin": [
        "data class User(\n    val id: Int,\n    val name: String,\n)",
        "interface Repo {\n    suspend fun find(\n        id: Int,\n    ): User?\n}",
    ],
    "csharp": [
        "public record P(\n    string Name,\n    int Age);",
        "interface I {\n    Task GoAsync(\n        int a,\n        int b);\n}",
    ],
    "go": ["type F func(\n\ta int,\n) error", "type I interface {\n\tDo(\n\t\ta int,\n\t) error\n}"],
    "php": ["interface I {\n    public function go(\n        string $a,\n    ): void;\n}"],
    "swift": ["protocol P {\n    func go(\n        a: Int\n    ) async throws -> Int\n}"],
    "scala": ["case class P(\n  a: Int,\n  b: String\n)", "trait T {\n  def go(\n    a: Int\n  ): Int\n}"],
    "python": ["Key = Union[\n    int,\n    str,\n]"],
    "sql": ["CREATE TABLE a (\n  id int,\n  b text\n)", "CREATE VIEW v AS\nSELECT id\nFROM a"],
    "vue": [
        "const props = defineProps<{\n  label: string\n}>()",
        "defineExpose({\n  go,\n})",
        "$: twice = 2 * count;",
    ],
    "ruby": ["class A\n  has_many :b, dependent: :destroy\n  attr_reader :c\nend"],
}


def test_statements_at_the_top_of_a_file_of_csharp_are_no_members() -> None:
    source = (
        'var app = Builder.Build();\napp.MapGet("/", () => 1);\nif (args.Length > 0) { Run(1); }\n'
        "int Add(int a, int b) => a + b;\napp.Run();\nclass A\n{\n    int F() { return 1; }\n}\n"
    )
    outline = seen("outline('csharp')", source + "\n" * 200)
    assert outline.splitlines()[1:] == [
        "var app = Builder.Build();",
        "int Add(int a, int b)",
        "class A",
        "    int F()",
    ]


def test_empty_functions_of_lua_are_functions() -> None:
    """In a loop they were missing, as the variables there are."""
    source = "for i = 1, 3 do\n  function M.empty() end\n  local n = 1\n  function M.f(a) return a end\nend\n"
    source += "function M.top() end\nlocal g = function(a, b) end\n"
    outline = seen("outline('lua')", source + "\n" * 200)
    assert outline.splitlines()[1:] == [
        "  function M.empty()",
        "  function M.f(a)",
        "function M.top()",
        "local g = function(a, b)",
    ]


@pytest.mark.parametrize(
    ("language", "source", "outline"),
    [
        ("rust", "#![allow(dead_code)]\n#![no_std]\npub const A: u8 = 1;\n", ["pub const A: u8 = 1;"]),
        ("php", "<?php\ndefine('A', 3);\nrun('B', 3);\n", ["define('A', 3);"]),
        (
            "css",
            "@keyframes spin {\n  from { a: b }\n}\n.a { b: c }\n",
            ["@keyframes spin { ...", ".a"],
        ),
    ],
)
def test_constants_and_named_rules_are_members(language: str, source: str, outline: list[str]) -> None:
    assert seen(f"outline('{language}')", source + "\n" * 200).splitlines()[1:] == outline


def test_a_call_with_a_block_that_names_a_symbol_is_a_definition_in_ruby() -> None:
    known = BY_NAME["ruby"]
    body = "".join(f"    munge_{n} 'x'\n" for n in range(30))
    source = (
        "# The type of files.\nPuppet::Type.newtype(:file) do\n"
        "  # Where it is.\n  newparam(:path) do\n    # How.\n    inner = 1\n    validate { |v| v }\n  end\n\n"
        "  newproperty(:ensure, :parent => X) do |x|\n    defaultto :present\n  end\n\n"
        "  validate do\n    count = 0\n  end\n\n"
        f"  File.open('x') do |x|\n    y\n  end\n\n  task build: [:all] do\n{body}  end\nend\n\n"
        "A::Point = Struct.new(:x, :y) do\n  def length\n    1\n  end\nend\n"
        "Puppet::Functions.create_function(:hiera) do\n  dispatch(1)\nend\n"
        "rest = list.map do |x|\n  x\nend\n"
    ).encode()
    found = definitions(source, known)
    assert [one.name for one in found] == ["file", "Point", "hiera", "rest"]
    assert [one.name for one in found[0].inside] == ["path", "ensure", "validate", "build"]
    assert "".join(one.text for one in signatures(source, found, known)) == (
        "# The type of files.\nPuppet::Type.newtype(:file) do\n"
        "  # Where it is.\n  newparam(:path) do\n"
        "  newproperty(:ensure, :parent => X) do |x|\n"
        "  validate do ...\n"
        "  task build: [:all] do\n"
        "A::Point = Struct.new(:x, :y) do\n  def length\n"
        "Puppet::Functions.create_function(:hiera) do\n"
        "rest = list.map do |x| ...\n"
    )


def test_functions_of_php_that_are_defined_unless_they_exist() -> None:
    known = BY_NAME["php"]
    function = b"    /** Tries again. */\n    function retry($n)\n    {\n        return $n;\n    }\n"
    source = b"<?php\nif (! function_exists('retry')) {\n" + function + b"}\n"
    shown = "".join(one.text for one in signatures(source, definitions(source, known), known))
    assert shown == "    // Tries again.\n    function retry($n)\n"


def test_packages_with_a_body_are_containers_in_scala() -> None:
    known = BY_NAME["scala"]
    source = (
        b"package a\n\npackage object sird {\n  val x = 1\n}\n\n"
        b"package b {\n  package c.d {\n    class F {\n      def g = 1\n    }\n  }\n}\n"
    )
    shown = "".join(one.text for one in signatures(source, definitions(source, known), known))
    assert shown == (
        "package object sird\n  val x = 1\npackage b\n  package c.d\n    class F\n      def g =\n"
    )


KOTLIN_OF_TOMORROW = """package a

context(context: Generator)
fun Expression.build(
    parent: Function,
): Call {
    return make(parent)
}

/** Made by hand. */
public class Engine<
    T : Any
    >
@Inject
internal constructor(
    private val config: Config,
) {
    /** Starts it. */
    public suspend fun start(wait: Boolean): Engine<T> {
        val local = 1
        return this
    }

    companion object {
        const val LIMIT = 3
    }
}
"""


def test_source_that_its_grammar_does_not_understand_is_read_by_lines() -> None:
    """The grammar of Kotlin knows neither context parameters nor a constructor on a line of its own."""
    known = BY_NAME["kotlin"]
    found = definitions(KOTLIN_OF_TOMORROW.encode(), known)
    assert [(one.name, [inner.name for inner in one.inside]) for one in found] == [
        ("build", []),
        ("Engine", ["config", "start", ""]),
    ]
    shown = "".join(one.text for one in signatures(KOTLIN_OF_TOMORROW.encode(), found, known))
    assert "// Made by hand.\n" in shown
    assert "    // Starts it.\n    public suspend fun start(wait: Boolean): Engine<T> {\n" in shown
    assert "const val LIMIT = 3" in shown
    assert "local" not in shown


def test_the_parts_of_a_function_that_the_parser_fails_on_are_no_members() -> None:
    heads = ["    __consuming func copy() -> A {", "    __consuming func copy(in range: B) -> A {"]
    source = "extension Guts {\n" + "".join(f"{head}\n    }}\n" for head in heads)
    assert outline_of(source, "swift") == ["extension Guts", *heads]


def test_a_property_for_another_type_has_its_own_name() -> None:
    assert names_of("val Throwable.rootCause: Throwable\n    get() = this\n", "kotlin") == ["rootCause"]


def test_one_error_does_not_change_how_the_rest_is_read() -> None:
    known = BY_NAME["kotlin"]
    good = "".join(f"fun f{n}(a: Int): Int {{\n    return a\n}}\n\n" for n in range(9))
    found = definitions((good + KOTLIN_OF_TOMORROW[11:140]).encode(), known)
    assert [one.name for one in found][:9] == [f"f{n}" for n in range(9)]


NEW = {
    "kotlin": (
        (
            "fun first(a: Int): Int {\n    return a\n}\n\nfun second(): Int {\n    return 1\n}\n\n"
            "enum class C { A, B; companion object { val x = 1 } }\n\n"
            "fun last(a: Int): Int {\n    return a\n}\n"
        ),
        [
            "fun first(a: Int): Int",
            "fun second(): Int",
            "enum class C { A, B; companion object { val x = 1 } }",
            "fun last(a: Int): Int {",
        ],
    ),
    "verilog": (
        (
            "module fifo #(\n  parameter W = 8\n) (\n  input  logic clk,\n  output logic [W-1:0] q\n);\n"
            "  always @(posedge clk) begin\n    q <= 1;\n  end\n"
            "  function automatic int twice(int a);\n    return 2 * a;\n  endfunction\nendmodule\n"
        ),
        [
            "module fifo #(",
            "  parameter W = 8",
            ") (",
            "  input  logic clk,",
            "  output logic [W-1:0] q",
            ");",
            "  function automatic int twice(int a);",
        ],
    ),
    "r": (
        (
            'Person <- R6::R6Class("Person",\n  public = list(\n    name = NULL,\n'
            "    initialize = function(name) {\n      self$name <- name\n    }\n  ),\n  private = list(\n"
            "    secret = function(x) {\n      x\n    }\n  )\n)\n\nafter <- function(a) {\n  1\n}\n"
        ),
        [
            'Person <- R6::R6Class("Person",',
            "  public = list(",
            "    name = NULL,",
            "    initialize = function(name) {",
            "  private = list(",
            "    secret = function(x) {",
            "after <- function(a) {",
        ],
    ),
    "scala": (
        (
            "extension (s: String)\n  def twice: String = s + s\n  // Again.\n"
            "  def thrice: String =\n    s + s\n"
            "extension [T](xs: List[T]) {\n  def second: T = xs(1)\n}\n"
            "extension (c: C) def area: Double = c.r\n"
            "given a: Foo = new Foo {\n  def b = 1\n}\ngiven Ord[Int] = Ord.by(_.x)\n"
        ),
        [
            "extension (s: String)",
            "  def twice: String =",
            "  // Again.",
            "  def thrice: String =",
            "extension [T](xs: List[T])",
            "  def second: T =",
            "extension (c: C)",
            "def area: Double =",
            "given a: Foo = new Foo",
            "  def b =",
            "given Ord[Int] = Ord.by(_.x)",
        ],
    ),
    "ruby": (
        (
            "class A\n  class << self\n    # Makes one.\n    def make(a)\n      new(a)\n    end\n"
            "    attr_reader :x\n  end\n  private def total(a)\n    a\n  end\n  if RUBY > 3\n    def new\n"
            "      1\n    end\n  end\n  class_methods do\n    def build\n      1\n    end\n  end\nend\n"
            "class Failed < Error; end\ndef ==(other); end\nclass << B\n  def q\n    1\n  end\nend\n"
        ),
        [
            "class A",
            "  class << self",
            "    # Makes one.",
            "    def make(a)",
            "    attr_reader :x",
            "  private def total(a)",
            "    def new",
            "  class_methods do",
            "    def build",
            "class Failed < Error; end",
            "def ==(other); end",
            "class << B",
            "  def q",
        ],
    ),
    "python": (
        "type X = int | str\ntype Point[T] = tuple[\n    T,\n    T,\n]\n\n\nclass A:\n    type Y = int\n",
        [
            "type X = int | str",
            "type Point[T] = tuple[",
            "    T,",
            "    T,",
            "]",
            "class A:",
            "    type Y = int",
        ],
    ),
    "c": (
        (
            "int before(int a) {\n  return a;\n}\n#ifdef WIN\nint main(int argc, char **argv)\n{\n#else\n"
            "int wmain(int argc, wchar_t **argv)\n{\n#endif\n  return 0;\n}\n"
            "int open(int a) {\n#ifdef A\n  if (a) {\n#else\n  if (!a) {\n#endif\n    return 1;\n  }\n}\n"
            "int after(int b)\n{\n  return b;\n}\n"
        ),
        [
            "int before(int a) {",
            "int main(int argc, char **argv)",
            "int wmain(int argc, wchar_t **argv)",
            "int open(int a) {",
            "int after(int b)",
        ],
    ),
    "csharp": (
        (
            "public static class E {\n  /// <summary>Of numbers.</summary>\n"
            "  extension(IEnumerable<int> source) {\n"
            "    public bool IsEmpty => !source.Any();\n    public int Total(int a) { return a; }\n  }\n"
            "  extension<T>(IEnumerable<T>) where T : I {\n    public static T Any(T a) { return a; }\n  }\n"
            "  public static int After(int b) { return b; }\n}\n"
        ),
        [
            "public static class E",
            "  // Of numbers.",
            "  extension(IEnumerable<int> source)",
            "    public bool IsEmpty => !source.Any();",
            "    public int Total(int a)",
            "  extension<T>(IEnumerable<T>) where T : I",
            "    public static T Any(T a)",
            "  public static int After(int b)",
        ],
    ),
    "c of macros in a list": (
        (
            "typedef enum {\n  /* The full URL */\n  CURLOPT(CURLOPT_URL, STRING, 2),\n"
            "  CURLOPT(CURLOPT_PORT, LONG, 3),\n  LAST\n} CURLoption;\n"
        ),
        [
            "typedef enum ... CURLoption",
            "  // The full URL",
            "  CURLOPT(CURLOPT_URL, STRING, 2),",
            "  CURLOPT(CURLOPT_PORT, LONG, 3),",
            "  LAST",
        ],
    ),
    "css": (
        "@font-face {\n  src: url(x);\n}\n@layer base {\n  .card {\n    color: red;\n  }\n}\n",
        ["@layer base", "  .card"],
    ),
    "go": (
        (
            "package a\n\nvar x = `raw\n\nfunc (r *Reader) Read(b []byte) int {\n\treturn 1\n}\n\n"
            "func Close(a int) {\n\tdone()\n}\n"
        ),
        ["var x = `raw", "func (r *Reader) Read(b []byte) int {", "func Close(a int) {"],
    ),
    "python match and loops": (
        (
            'match sys.platform:\n    case "win32":\n        def f(a):\n            return 1\n        X = 1\n'
            "    case _:\n        class A:\n            def m(self):\n                return 1\n"
            "for n in range(3):\n    def g(x):\n        return x\n    y = g(n)\n"
            "else:\n    def h():\n        return 1\n"
            "while True:\n    class B:\n        a = 1\n    z = 2\n"
        ),
        [
            "        def f(a):",
            "        X = 1",
            "        class A:",
            "            def m(self):",
            "    def g(x):",
            "    def h():",
            "    class B:",
            "        a = 1",
        ],
    ),
    "ruby case and loops": (
        (
            "case RUBY_PLATFORM\nwhen /win/\n  def f(a)\n    1\n  end\n  X = 1\n"
            "else\n  def g\n    1\n  end\nend\n"
            "for a in b do\n  def h\n    1\n  end\n  y = 1\nend\nwhile a\n  def i\n    1\n  end\nend\n"
            "until b do\n  def j\n    1\n  end\nend\nbegin\n  def k\n    1\n  end\nend while x\n"
            "case x\nin {a: 1}\n  def l\n    1\n  end\nend\n"
        ),
        ["  def f(a)", "  X = 1", "  def g", "  def h", "  def i", "  def j", "  def k", "  def l"],
    ),
    "lua blocks and loops": (
        (
            "do\n  local x = 1\n  function M.f(a)\n    return x\n  end\nend\n"
            "for i = 1, 3 do\n  function M.g(a)\n    return 1\n  end\nend\n"
            "if x then\n  function M.h(a)\n    return 1\n  end\n"
            "elseif y then\n  function M.i(a)\n    return 1\n  end\n"
            "else\n  function M.j(a)\n    return 1\n  end\nend\n"
        ),
        [f"  function M.{name}(a)" for name in "fghij"],
    ),
    "lua methods of one object": (
        "".join(f"function Path:m{n}(a)\n  return 1\nend\n" for n in range(5)),
        [f"function Path:m{n}(a)" for n in range(5)],
    ),
    "typescript with an enum that nothing closes": (
        (
            "enum Color {\n  Red,\n  Green,\n\nfunction first(a: string): void {\n  call(a);\n}\n\n"
            "function second(): void {\n  call();\n}\n"
        ),
        [
            "enum Color",
            "  Red",
            "  Green",
            "function first(a: string): void {",
            "function second(): void",
        ],
    ),
    "typescript on one line": (
        (
            "export type Box<T> = { current: T }\nexport function f(): void {\n  call()\n}\n"
            f"interface Long {{ {'a' * 200}: string }}\n"
        ),
        [
            "export type Box<T> = { current: T }",
            "export function f(): void",
            "interface Long",
            f"{'a' * 200}: string",
        ],
    ),
    "kotlin with comments between parameters": (
        (
            "class Cookie(\n"
            + "".join(
                f"  /**\n   * {'Words. ' * 20}\n   */\n  // More.\n  /* a */ val a{n}: String,\n"
                for n in range(9)
            )
            + ") {\n  fun f(): Int {\n    return 1\n  }\n}\n"
        ),
        ["class Cookie(", *(f"  /* a */ val a{n}: String," for n in range(9)), ")", "  fun f(): Int"],
    ),
    "swift with parentheses in an annotation": (
        (
            'class A {\n    @available(*, message: "Use [B()] now.")\n'
            "    public let b: Int = f(\n        1\n    )\n\n"
            "    func g() {\n        call()\n    }\n}\n"
        ),
        [
            "class A",
            '    @available(*, message: "Use [B()] now.")',
            "    public let b: Int = f( ...",
            "    func g()",
        ],
    ),
    "sql with a type that the grammar does not know": (
        (
            'CREATE TABLE "user" (\n    "id" UUID NOT NULL,\n'
            '    "at" TIMESTAMPTZ(6) DEFAULT CURRENT_TIMESTAMP, -- (\n'
            '    "sign" TEXT DEFAULT \')\',\n    CONSTRAINT "p" PRIMARY KEY ("id")\n);\n'
            'INSERT INTO "user" VALUES (1);\nCREATE INDEX "i" ON "user"("at");\n'
        ),
        [
            'CREATE TABLE "user" (',
            '    "id" UUID NOT NULL,',
            '    "at" TIMESTAMPTZ(6) DEFAULT CURRENT_TIMESTAMP, -- (',
            "    \"sign\" TEXT DEFAULT ')',",
            '    CONSTRAINT "p" PRIMARY KEY ("id")',
            ")",
            'CREATE INDEX "i" ON "user"("at")',
        ],
    ),
    "php with traits": (
        "<?php\nuse App\\B;\nclass A extends B {\n    use One, Two;\n    function f() { return 1; }\n}\n",
        ["class A extends B", "    use One, Two;", "    function f()"],
    ),
    "c with groups of Doxygen": (
        "/**@{*/\n/** Baud rate. */\n#define RATE 9\nint f(void) {\n  return 1;\n}\n/**@}*/\nint g(void);\n",
        ["// Baud rate.", "#define RATE 9", "int f(void)", "int g(void);"],
    ),
    "cpp with a macro after an error": (
        "void broken( { }\nint after(int x) { return x; }\n#define GUARD_H\n#define MAX(a, b) a\n",
        ["void broken( { }", "int after(int x) { return x; }", "#define MAX(a, b) a"],
    ),
    "javascript": (
        "if (x) {\n\n" + "".join(f"function f{n}() {{\n  return {n};\n}}\n" for n in range(5)),
        [f"function f{n}()" for n in range(5)],
    ),
}


@pytest.mark.parametrize("case", NEW)
def test_an_outline_shows(case: str) -> None:
    source, lines = NEW[case]
    assert outline_of(source, case.split(maxsplit=1)[0]) == lines


@pytest.mark.parametrize(
    ("language", "unit", "count"),
    [
        ("scala", "class A(s: String):\n  def t: String = s\n", 2_000),
        ("python", "def f(): pass\n", 4_000),
        ("scala", "extension (s: String)\n" + "  // A comment.\n" * 8_000 + "  def t: String = s\n", 1),
        ("javascript", "".join(f"function f{n}() {{ return 1 }} " for n in range(4_000)), 1),
    ],
    ids=["short classes", "short functions", "comments before a body", "one line"],
)
def test_the_time_is_linear(language: str, unit: str, count: int) -> None:
    """Any of these took minutes, or forever: the names of many definitions were read through the parser."""
    started = time.process_time()
    assert outline_of(unit * count, language)
    assert time.process_time() - started < 15  # seconds; a second or less is usual


def well_nested(found: Sequence[Definition], first: int, last: int) -> bool:
    """Return whether the definitions are in order, and inside each other."""
    for one in found:
        if not first <= one.first <= one.start <= one.body <= one.last <= last:
            return False
        if not well_nested(one.inside, one.start, one.last):
            return False
        first = one.last
    return True


@pytest.mark.parametrize("language", ODD)
def test_nothing_before_or_after_an_odd_construct_is_lost(language: str) -> None:
    start = "<?php\n" if language == "php" else ""
    for odd in ODD[language]:
        for before, after in ((0, 2), (3, 3), (8, 2)):
            given = [f"before{n}" for n in range(before)], [f"after{n}" for n in range(after)]
            around = ["".join(BETWEEN[language].format(name) for name in names) for names in given]
            source = f"{start}{around[0]}{odd}\n{around[1]}"
            found = definitions(source.encode(), BY_NAME[language])
            shown = "".join(one.text for one in signatures(source.encode(), found, BY_NAME[language]))
            assert [name for name in given[0] + given[1] if name not in shown] == [], odd
            assert len(shown) <= len(source), odd
            assert well_nested(found, 0, len(source.encode())), odd


TEXTS = [
    *((language, source) for language, (source, _) in SOURCES.items()),
    *((language, text) for language, texts in SIGNATURES.items() for text in texts),
    ("kotlin", KOTLIN_OF_TOMORROW),
    *(
        (language, f"{odd}\n{BETWEEN[language].format('b')}")
        for language, odds in ODD.items()
        for odd in odds
    ),
]
INSERTED = [
    "",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    '"',
    "'",
    "`",
    "/*",
    "*/",
    "#",
    "#if A\n",
    "\n",
    "__x ",
    "class ",
    "é",
    "\f",
]


@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(st.integers(0, 2000), st.sampled_from([0, 1, 2, 30]), st.sampled_from(INSERTED)),
        max_size=6,
    ),
)
def test_broken_source_is_read_as_far_as_possible(
    text: tuple[str, str], edits: list[tuple[int, int, str]]
) -> None:
    language, broken = text
    for place, deleted, inserted in edits:
        at = place % (len(broken) + 1)
        broken = broken[:at] + inserted + broken[at + deleted :]
    source = broken.encode()
    found = definitions(source, BY_NAME[language])
    assert well_nested(found, 0, len(source))
    for one in signatures(source, found, BY_NAME[language]):
        assert one.text.strip()
        assert 0 <= one.start < len(source)
    pieces = shape(source, language).pieces
    assert b"".join(source[one.start : one.end] for one in pieces) == source


# What comes before the text in a file of these languages, and after it.
AROUND = {"vue": ("<script setup>\n", "\n</script>"), "php": ("<?php\n", "")}


def lines_of(text: str) -> set[str]:
    """Return the lines without brackets and marks at their ends."""
    return {line.strip().rstrip("{,;").strip() for line in text.splitlines()} - {"}", "end", ""}


@pytest.mark.parametrize("language", SIGNATURES)
def test_a_signature_without_a_body_is_whole(language: str) -> None:
    known = BY_NAME[language]
    before, after = AROUND.get(language, ("", ""))
    for text in SIGNATURES[language]:
        source = f"{before}{text}{after}".encode()
        shown = "".join(one.text for one in signatures(source, definitions(source, known), known))
        assert lines_of(text) <= lines_of(shown)


def test_a_value_of_several_lines_and_a_long_signature_are_cut_with_a_mark() -> None:
    known = BY_NAME["typescript"]
    members = "".join(f"  | 'name{n}'\n" for n in range(90))
    source = f"const LIST = [\n  1,\n];\ntype U =\n{members}  | 'last';\n".encode()
    shown = [one.text for one in signatures(source, definitions(source, known), known)]
    assert shown[0] == "const LIST = [ ...\n"
    assert shown[1].startswith("type U =\n  | 'name0'\n")
    assert shown[1].endswith(" ...\n")
    assert len(shown[1]) < 700


def test_a_name_after_the_body_is_shown() -> None:
    source = b"typedef struct {\n  int a;\n} point_t;\n"
    shown = "".join(one.text for one in signatures(source, definitions(source, BY_NAME["c"]), BY_NAME["c"]))
    assert shown == "typedef struct ... point_t\n  int a;\n"


def test_what_is_returned_is_defined_and_a_condition_is_not() -> None:
    known = BY_NAME["php"]
    source = b"<?php\nreturn new class extends Migration {\n  public function up(): void { x(); }\n};\n"
    found = definitions(source, known)
    assert [one.name for one in found[0].inside] == ["up"]
    assert definitions(b"if (x) {\n  y();\n}\n", BY_NAME["javascript"]) == ()


def test_an_error_leaves_out_its_node_and_nothing_else() -> None:
    source = (
        "def good(a):\n    return a\n\n\ndef bad(:\n    x = (\n\n\ndef fine(b):\n    return b\n" + "\n" * 40
    )
    result = seen("outline('python')", source)
    assert "def good(a):" in result
    assert len(result) < len(source)


@pytest.mark.parametrize(
    ("language", "unit"),
    [
        ("python", b"|---"),
        ("kotlin", b"/*"),
        ("scala", b"case a:"),
        ("csharp", b"<a "),
        ("csharp", b"a => a\n<"),
    ],
)
def test_source_on_which_the_parser_takes_quadratic_time_has_no_definitions(
    language: str, unit: bytes
) -> None:
    known = BY_NAME[language]
    assert syntax_tree(unit * 2_000, known) is None
    text = (unit * 2_000).decode()
    assert parse_pipeline(f'outline("{language}")').apply(text, BYTES) == text


def test_a_parser_keeps_no_copy_of_a_source() -> None:
    """tree-sitter never frees what it was given to read. The text of a node is still right."""
    source = b"".join(b"def f%d(value):\n    return value\n\n\n" % n for n in range(3_000))
    syntax_tree(source, BY_NAME["python"])  # imports
    tracemalloc.start()
    try:
        for _ in range(4):
            root = syntax_tree(source, BY_NAME["python"])
            assert root is not None
            assert root.children[1].text == b"def f1(value):\n    return value"
            del root  # which keeps the tree
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(source)


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an outline opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    grammar.cache_clear()
    for language, (source, _) in SOURCES.items():
        assert seen(f"outline('{language}')", source) != source


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(LensSyntaxError, match="did you mean 'python'"):
        parse_pipeline("outline('pyton')")


def test_without_the_extra_the_pipeline_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "find_spec", lambda _: None)
    parse_pipeline.cache_clear()
    with pytest.raises(MissingExtra, match=r"tokenbox-llm\[outline\]"):
        parse_pipeline("outline")
    assert importlib.util.find_spec("tree_sitter")


def test_overloads_are_counted_and_marks_of_comments_and_conditions_left_out() -> None:
    methods = "".join(f"  public void Write(T{n} x) {{ Emit(x); }}\n" for n in range(6))
    source = f"""
class A {{
  /// <summary>
  /// Writes it.
  /// </summary>
  public void First() {{ Emit(1); }}
{methods}
#if FEATURE_SPAN
  public int Length => 3;
#endif
}}
"""
    result = seen("outline('csharp')", source)
    assert "// Writes it.\n  public void First()" in result
    assert "  public void Write(T2 x)\n  ... 3 more Write\n" in result
    assert "T3" not in result
    assert "Length => 3" in result
    assert "summary" not in result
    assert "FEATURE_SPAN" not in result


@pytest.mark.parametrize("condition", ["#ifdef __cplusplus", "#if defined (__cplusplus)"])
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_header_of_c_for_cpp_defines_what_is_in_it(language: str, condition: str) -> None:
    inner = "#ifndef INNER\n#define INNER\nint f(void);\n#endif\nstruct s { int a; };\n"
    source = f'{condition}\nextern "C" {{\n#endif\n{inner}{condition}\n}} /* C */\n#endif\n'
    assert names_of(source, language) == ["INNER", "f", "s"]
    assert names_of(f"#ifndef A_H\n#define A_H\n{source}#endif\n", language) == ["INNER", "f", "s"]
    assert names_of('extern "C" {\nint g(int a);\n}\n', language) == ["g"]


def test_the_guard_of_a_header_is_no_definition() -> None:
    assert names_of("#if !defined(A_H)\n#define A_H\nint f(void);\n#endif\n", "c") == ["f"]
    assert names_of("#ifndef A\n#define A\n#endif\nint f(void);\n", "c") == ["A", "f"]
    assert names_of("#ifndef A\n#define A 1\nint f(void);\n#endif\n", "c") == ["A", "f"]


def test_macros_in_place_of_braces_and_before_forward_declarations_hide_nothing() -> None:
    source = (
        "FMT_BEGIN_NAMESPACE\nclass FMT_API Later;\nstruct TIMEVAL now;\n"
        "template <class T> struct box { T value; };\nvoid f(int a) { g(a); }\nFMT_END_NAMESPACE\n"
    )
    assert names_of(source, "cpp") == ["now", "box", "f"]
    assert names_of("__BEGIN_DECLS\nint f(int a);\n__END_DECLS\n", "c") == ["f"]
    assert names_of("enum e { A_BEGIN,\n  B\n};\n", "c") == ["e"]


IN_BLOCKS = {
    "javascript": "if (a) { D } else { D } for (k of ks) { D } for (;;) { D } while (a) { D }\n"
    "do { D } while (a)\nswitch (a) { case 1: D break; default: { D } }\n"
    "try { D } catch (e) { D } finally { D } { D }",
    "php": "<?php foreach ($a as $b) { D } for (;;) { D } while ($a) { D } do { D } while ($a);\n"
    "switch ($a) { case 1: D break; default: D } if ($a) { D } elseif ($b) { D } else { D }\n"
    "if ($a): D endif; try { D } catch (E $e) { D } finally { D }",
    "scala": "object O {\n for (x <- xs) { D }\n a match {\n case 1 => D\n }\n if (x) { D } else { D }\n"
    " while (x) { D }\n try { D } catch { case e => D }\n}\n",
    "kotlin": "when (x) { 1 -> { D } }\nif (a) { D } else { D }\ntry { D } catch (e: E) { D }\n",
    "swift": "switch x { case 1: D\ndefault: D\n}\nwhile x { D }\ndo { D } catch { D }\n",
}
DEFINES = {
    "javascript": "function fN(x) { const local = 1 } ",
    "php": "function fN($x) { $local = 1; } ",
    "scala": "def fN(x: Int) = { val local = 1 }; ",
    "kotlin": "fun fN(x: Int) { val local = 1 } ",
    "swift": "func fN(x: Int) { let local = 1 } ",
}


@pytest.mark.parametrize("language", IN_BLOCKS)
def test_functions_in_loops_branches_and_blocks_are_defined(language: str) -> None:
    first, *parts = re.split(r"\bD\b", IN_BLOCKS[language])
    source = first + "".join(DEFINES[language].replace("fN", f"f{n}") + part for n, part in enumerate(parts))
    found = definitions(source.encode(), BY_NAME["typescript" if language == "javascript" else language])
    inside = found[0].inside if language == "scala" else found
    assert [one.name for one in inside] == [f"f{n}" for n in range(len(parts))]


def test_a_function_of_c_is_shown_once_and_an_overload_of_cpp_stays() -> None:
    source = (
        "static int *helper(int a);\nint elsewhere(void);\nint helpers;\n#ifdef X\nint main(void);\n#endif\n"
        "int\nmain(void)\n{\n  return *helper(1);\n}\n\nstatic int *helper(int a) { return &helpers; }\n"
    )
    assert names_of(source, "c") == ["elsewhere", "helpers", "main", "helper"]
    (found,) = definitions(b"struct s { int f(int a); int f(double a) { return 1; } };\n", BY_NAME["cpp"])
    assert [inner.name for inner in found.inside] == ["f", "f"]


def names_of(source: str, language: str) -> list[str]:
    return [found.name for found in definitions(source.encode(), BY_NAME[language])]


def outline_of(source: str, language: str) -> list[str]:
    found = definitions(source.encode(), BY_NAME[language])
    return "".join(one.text for one in signatures(source.encode(), found, BY_NAME[language])).splitlines()


@pytest.mark.parametrize("macro", ["MY_EXPORT", "Q_DECL_EXPORT", 'ABI_TAG("x")'])
def test_a_macro_that_exports_a_class_is_not_its_name(macro: str) -> None:
    body = "{ return a + a + a + a + a + a + a + a + a + a + a + a + a + a + a; }"
    source = f"class {macro} Foo final : public Base {{\n public:\n  int size(int a) {body}\n}};\n"
    assert outline_of(source, "cpp") == [f"class {macro} Foo final : public Base", "  int size(int a)"]


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("namespace {\nint hidden(int a) {\n  return a + a + a + a + a + a + a;\n}\n}\n", "cpp"),
        ('extern "C" {\nint shown(int a) {\n  return a + a + a + a + a + a + a;\n}\n}\n', "cpp"),
        ('class B {\n  companion object {\n    const val TAG = "a long text of a tag"\n  }\n}\n', "kotlin"),
    ],
)
def test_a_container_without_a_name_has_not_that_of_its_first_member(source: str, language: str) -> None:
    assert not any("..." in line for line in outline_of(source, language))


def test_instances_for_several_types_are_several() -> None:
    shown = f'show a = "{"long text " * 6}"'
    source = "".join(f"instance Show {kind} where\n  {shown}\n\n" for kind in ("A", "B"))
    found = outline_of(source, "haskell")
    assert [line for line in found if line.startswith("instance")] == [
        "instance Show A where",
        "instance Show B where",
    ]


def test_a_package_is_a_definition_where_it_is_one() -> None:
    assert names(b"package Shop::Cart;\nsub add { 1 }\n", BY_NAME["perl"].heads) == ["Shop::Cart", "add"]  # type: ignore[arg-type]
    assert names(b"package foo;\nvoid main() {}\n", BY_NAME["dart"].heads) == ["main"]  # type: ignore[arg-type]
