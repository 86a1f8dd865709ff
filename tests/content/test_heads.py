"""Definitions in languages without a grammar, by the beginnings of lines."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compose.independent import HOSTILE
from tokenbox.content.lenses import headed
from tokenbox.content.lenses.definitions import definitions
from tokenbox.content.lenses.headed import headed_definitions
from tokenbox.content.lenses.heads import HEADS
from tokenbox.content.lenses.languages import BY_NAME
from tokenbox.content.lenses.outline import signatures
from tokenbox.folder.languages import kind_of
from tokenbox.folder.pieces import shape

if TYPE_CHECKING:
    from tokenbox.content.lenses.definition import Definition

ELIXIR = """defmodule Shop.Cart do
  @moduledoc false

  @doc \"\"\"
  Adds an item.

  More about it.
  \"\"\"
  @spec add(t, item) :: t
  def add(cart, nil), do: cart

  def add(cart, item) do
    def_not = 1
    put(cart, item)
  end

  defp put(cart, item), do: [item | cart]
end
"""
ZIG = """const std = @import("std");

/// A queue of jobs.
pub const Queue = struct {
    len: usize = 0,

    /// Take the first one.
    pub fn pop(
        self: *Queue,
    ) ?Job {
        const x = 1;
        return null;
    }
};

test "pop" {
    try x();
}
"""
OUTLINES = {
    "elixir": (ELIXIR, ["defmodule Shop.Cart do", "  # Adds an item.", "  def add(cart, nil), do: cart"]),
    "zig": (
        ZIG,
        [
            "// A queue of jobs.",
            "pub const Queue = struct {",
            "    len: usize = 0,",
            "    // Take the first one.",
            "    pub fn pop(",
            "        self: *Queue,",
            "    ) ?Job {",
        ],
    ),
    "haskell": (
        (
            "module M where\n\n-- | Sum up.\ntotal :: [Int] -> Int\ntotal [] = 0\ntotal (x:xs) = x\n\n"
            "data Tree = Leaf\n  | Node Tree Tree\n"
        ),
        ["-- Sum up.", "total :: [Int] -> Int", "data Tree = Leaf", "  | Node Tree Tree"],
    ),
    "agda": (
        "module M where\n\n-- Sum up.\nsum : List A\n      → A\nsum xs = f xs\n\n_≡_ : A → A → Set\n",
        ["-- Sum up.", "sum : List A", "      → A", "_≡_ : A → A → Set"],
    ),
    "plsql": (
        (
            "create or replace package cart as\n  /*\n  Copyright 2016\n  */\n"
            "  type items is table of clob;\n  function total(\n    x number\n  ) return number;\nend;\n/\n"
        ),
        [
            "create or replace package cart as",
            "  type items is table of clob;",
            "  function total(",
            "    x number",
        ],
    ),
    "ocaml": (
        "let area w h =\n  let s = w in\n  s * h\n\ntype t = {\n  w : int;\n}\n",
        ["let area w h =", "type t = {", "  w : int;"],
    ),
    "lisp": ("(ns a.b)\n\n(defn- total [xs]\n  (reduce + xs))\n", ["(ns a.b)", "(defn- total [xs]"]),
    "erlang": (
        "-spec f(a) -> b.\nf(1) -> 2;\nf(_) ->\n    g(3).\n\ng(X) -> X.\n",
        ["-spec f(a) -> b.", "g(X) -> X."],
    ),
    "fortran": (
        "MODULE m\ncontains\n  pure function area(w) result(a)\n    real :: a\n  end function\nend module\n",
        ["MODULE m", "pure function area(w) result(a)"],
    ),
    "solidity": (
        "contract Box {\n    uint256 public sum;\n    function put(\n        uint256 x\n    ) {\n    }\n}\n",
        ["contract Box {", "    uint256 public sum;", "    function put(", "        uint256 x"],
    ),
    "dart": (
        "class Cart extends Base {\n  final int size;\n\n  int total() {\n    return add(1);\n  }\n}\n",
        ["class Cart extends Base {", "  final int size;", "  int total() {"],
    ),
    "objc": (
        "@implementation Cart\n- (void)add:(Item *)x {\n  [a b];\n}\n@end\n",
        ["- (void)add:(Item *)x {"],
    ),
    "r": ("#' Add up.\ntotal <- function(x) {\n  sum(x)\n}\n", ["# Add up.", "total <- function(x) {"]),
    "shell": ("build() {\n  make\n}\nfunction test_all {\n  x\n}\n", ["build() {", "function test_all {"]),
    "terraform": ('resource "aws_vpc" "main" {\n  x = 1\n}\n', ['resource "aws_vpc" "main" {']),
    "schema": (
        "message A {\n  string b = 1;\n}\nservice S {\n  rpc Get(A) returns (B);\n}\n",
        ["message A {", "  string b = 1;", "  rpc Get(A) returns (B);"],
    ),
    "moonscript": (
        "import a from b\n\ntotal = (xs) ->\n  sum xs\n\nclass Cart extends Base\n  add: (x) =>\n    x\n",
        ["total = (xs) ->", "class Cart extends Base", "  add: (x) =>"],
    ),
    "nextflow": (
        "process SORT {\n    input:\n    path x\n}\n\nworkflow RUN {\n    SORT(1)\n}\n\nworkflow {\n}\n",
        ["process SORT {", "workflow RUN {"],
    ),
    "jinja": (
        "{# Sort it. #}\n{%- macro sorted(x, by) -%}\n    select 1\n{%- endmacro %}\n",
        ["{%- macro sorted(x, by) -%}"],
    ),
    "latex": (
        "\\newcommand{\\N}{\\mathbb{N}}\n\\section*{Types}\nA type.\n\\subsection[Sums]{Sum types}\nMore.\n",
        ["\\newcommand{\\N}{\\mathbb{N}}", "\\section*{Types}", "\\subsection[Sums]{Sum types}"],
    ),
    "clike": (
        "global with sharing class Cart {\n  global static Long total(List<Item> x) {\n    return;\n  }\n}\n",
        ["global with sharing class Cart {", "  global static Long total(List<Item> x) {"],
    ),
    "other": ("class Cart\n  fun total()\n    1\n", ["class Cart", "  fun total()"]),
    "rego": ("package a\n\ndeny[msg] {\n    x\n}\n\nok if {\n    y\n}\n", ["deny[msg] {", "ok if {"]),
    "jsonnet": (
        "local a = 1;\n{\n  port(p=80):: {\n    x: p,\n  },\n}\n",
        ["local a = 1;", "  port(p=80):: {"],
    ),
    "qml": (
        "Item {\n    property int size: 0\n    function add(n) {\n        x()\n    }\n}\n",
        ["Item {", "    property int size: 0", "    function add(n) {"],
    ),
    "docker": ("FROM go:1 AS build\nRUN x\nFROM scratch\nCOPY a b\n", ["FROM go:1 AS build"]),
    "bicep": ("param size int = 1\nresource a 'x@1' = {\n  name: 'a'\n}\n", ["resource a 'x@1' = {"]),
    "abap": (
        "CLASS cart DEFINITION.\n  METHODS add.\nENDCLASS.\nFORM run.\n  x = 1.\nENDFORM.\n",
        ["CLASS cart DEFINITION.", "  METHODS add.", "FORM run."],
    ),
    "sas": ("%macro total(x);\n  y;\n%mend;\ndata a.b;\n  set c;\nrun;\n", ["%macro total(x);", "data a.b;"]),
    "stata": ("program define total, rclass\n    y\nend\n", ["program define total, rclass"]),
    "sml": (
        "structure S = struct\n  fun push x s =\n    x :: s\nend\n",
        ["structure S = struct", "  fun push x s ="],
    ),
    "grammar": ("expr\n    : term\n    ;\nterm : ID ;\n", ["expr", "term : ID ;"]),
}
# Languages that use the suffix of another, and what the names in them are.
SHARED = {
    "a.pp": (b"class ntp (\n  String $x,\n) {\n}\ndefine ntp::server {\n}\n", ["ntp", "ntp::server"]),
    "b.pp": (
        b"unit Carts;\ntype\n  TCart = class\n  end;\nprocedure TCart.Run;\nbegin\nend;\n",
        ["TCart", "TCart.Run"],
    ),
    "a.sql": (
        b"{% macro star(x) %}\n  *\n{% endmacro %}\n\n{%- macro sum(x) -%}\n{% endmacro %}\n",
        ["star", "sum"],
    ),
    "a.pl": (b"tree(X) :- leaf(X).\ntree(X) :-\n    node(X, Y),\n    tree(Y).\nleaf(a).\n", ["tree", "leaf"]),
    "b.pl": (b"sub total {\n    add($x);\n    1\n}\n", ["total"]),
    "a.cshtml": (b"<p>@Model.Name(1)</p>\n@code {\n    int Total(int x) {\n    }\n}\n", ["Total"]),
    "a.gd": (
        b"class_name Cart\n@export var size: int = 1\nsignal done(x)\nclass Item:\n\tvar n = 1\n",
        ["Cart", "size", "done", "Item", "n"],
    ),
    "a.move": (
        b"module 0x1::coin {\n    public(friend) entry fun pay(x: u64) {\n    }\n}\n",
        ["0x1::coin", "pay"],
    ),
    "BUILD": (b'# x\n\nload("//a:b.bzl", "c")\n\ndef d(e):\n    pass\n', ["d"]),
    "build": (b"#!/bin/sh\nload() {\n  y\n}\n", ["load"]),
    "BUILD.bazel": (b"def _impl(ctx):\n    pass\n\ncart = rule(implementation = _impl)\n", ["_impl", "cart"]),
}


@pytest.mark.parametrize("language", OUTLINES)
def test_an_outline_has_the_signatures(language: str) -> None:
    text, wanted = OUTLINES[language]
    known = BY_NAME[language]
    lines = "".join(
        one.text for one in signatures(text.encode(), definitions(text.encode(), known), known)
    ).splitlines()
    for line in wanted:
        assert line.strip() in [one.strip() for one in lines]
    assert not {"return null;", "def_not = 1", "return add(1);", "let s = w in", "sum(x)"} & {
        line.strip() for line in lines
    }


def test_a_type_of_objective_c_is_not_defined_by_its_members_nor_by_additions_to_it() -> None:
    text = (
        b"@protocol Later;\n@protocol Named <NSObject>\n@end\n@interface Cart<T> : NSObject\n"
        b"@property (copy) NSString *name;\n- (void)add;\n@end\n"
        b"@interface NSArray<T> (Cart)\n+ (id)empty;\n@end\n@implementation Cart ()\n@end\n"
        b"#define ALL(x) \\\n\tmap_of(1, x) \\\n\nstatic void total(Cart *cart) {\n}\n"
    )
    known = BY_NAME["objc"].heads
    assert known is not None
    assert list(dict.fromkeys(headed.names(text, known))) == ["Named", "Cart", "total"]


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        (
            "pascal",
            b"type\n  TCart = class\n  end;\nprocedure TCart.Free;\nfunction TCart<T>.Size;\nfunction Sum;\n",
            ["TCart", "Sum"],
        ),
        ("julia", b"function Base.show(io, x::Cart)\nend\n\nfunction total(x)\nend\n", ["total"]),
    ],
)
def test_a_function_after_its_type_or_module_is_a_member(
    language: str, text: bytes, names: list[str]
) -> None:
    known = BY_NAME[language].heads
    assert known is not None
    assert list(dict.fromkeys(headed.names(text, known))) == names


def test_clauses_of_a_name_are_one_definition() -> None:
    (module,) = definitions(ELIXIR.encode(), BY_NAME["elixir"])
    assert [one.name for one in module.inside] == ["add", "put"]
    add = module.inside[0]
    assert ELIXIR[add.first :].startswith('  @doc """')
    assert "put(cart, item)\n  end\n" in ELIXIR[add.start : add.last]


@given(
    st.sampled_from(HEADS),
    st.lists(
        st.sampled_from(
            [*HOSTILE, ELIXIR, ZIG, "  ", "\n", "\n\n", "# x\n", '"""\n', "*/\n", "def f(x\n", "type A\n"]
        ),
        max_size=8,
    ).map("".join),
)
def test_definitions_are_in_order_and_inside_each_other(heads: object, text: str) -> None:
    source = text.encode("utf-8", "surrogatepass")

    def check(found: object, first: int, last: int) -> None:
        for one in found:  # type: ignore[attr-defined]
            assert first <= one.first <= one.start <= one.body <= one.last <= last
            check(one.inside, one.start, one.last)
            first = one.last

    check(headed_definitions(source, heads), 0, len(source))  # type: ignore[arg-type]


DOCUMENTED = {
    "elixir": (
        'defmodule A do\n  @doc """\n  Adds.\n\n      def no(x), do: x\n  """\n  def add(x), do: x\nend\n',
        ["A", "add"],
    ),
    "zig": ("/*\nfn no() void {}\n*/\nfn yes() void {}\n", ["yes"]),
    "haskell": ("{- |\nno :: Int\n-}\nyes :: Int\nyes = 1\n", ["yes"]),
    "clike": ("/++\n    struct no {\n    template no where it is.\n +/\nvoid yes() {\n}\n", ["yes"]),
    "ocaml": ("(* let no = 1\nlet no x = x\n*)\n(*----\nlet nor x = x\n----*)\nlet yes x = x\n", ["yes"]),
    "lisp": ("(defn f [x]\n  (* 2 x))\n(*print* 1)\n(defn g [x]\n  (*g*))\n", ["f", "g"]),
    "julia": ('"""\n    f(x)\n\nfunction no(x)\n"""\nfunction yes(x)\nend\n', ["yes"]),
    "dart": ("/*\nint no() {\n}\n*/\nint yes() {\n}\n", ["yes"]),
    "shell": ('x="""\nyes() {\n}\n', ["yes"]),  # nothing ends it, so it is no text
}


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("agda", "module Cart where\n\nsum : A\nsum = x\n", ["sum"]),
        ("haskell", "module Cart where\n\nsum :: A\nsum = x\n", ["sum"]),
        ("lisp", "(ns shop.cart)\n(defn sum [x])\n", ["sum"]),
        ("zig", "size: usize,\nstate: struct {\n    a: u8,\n},\npub fn sum() void {\n}\n", ["sum"]),
    ],
)
def test_a_namespace_and_a_field_are_no_names_for_others(language: str, text: str, wanted: list[str]) -> None:
    heads = BY_NAME[language].heads
    assert heads is not None
    assert list(dict.fromkeys(headed.names(text.encode(), heads))) == wanted


@pytest.mark.parametrize("language", DOCUMENTED)
def test_examples_in_documentation_define_nothing(language: str) -> None:
    text, wanted = DOCUMENTED[language]
    found: list[str] = []

    def collect(definitions_there: tuple[Definition, ...]) -> None:
        for one in definitions_there:
            found.append(one.name)
            collect(one.inside)

    collect(definitions(text.encode(), BY_NAME[language]))
    assert [name for name in found if name] == wanted


@pytest.mark.parametrize(
    ("language", "text", "signature"),
    [
        ("haskell", "total :: [Int]\n      -> Int\ntotal = sum\n", "total :: [Int]\n      -> Int\n"),
        (
            "ocaml",
            "val map :\n  ('a -> 'b) ->\n  'a t ->\n  'b t\n\nval x : int\n",
            "val map :\n  ('a -> 'b) ->\n",
        ),
        ("erlang", "-spec f(a) ->\n    b.\nf(1) -> 2.\n", "-spec f(a) ->\n    b.\n"),
        ("dart", "A f(\n  int x,\n) : this.of(\n  x,\n) {\n  y();\n}\n", "A f(\n  int x,\n) : this.of(\n"),
        (
            "erlang",
            "-callback f(\n    a()\n) ->\n    b().\nf(1) -> 2.\n",
            "-callback f(\n    a()\n) ->\n    b().\n",
        ),
        ("ocaml", "let f\n    ~a\n    ~b =\n  y();\n  a\n", "let f\n    ~a\n    ~b =\n"),
        (
            "verilog",  # Coq
            "Lemma one:\n  forall n,\n  n = n.\nProof.\n  y();\nQed.\n",
            "Lemma one:\n  forall n,\n  n = n.\n",
        ),
        (
            "verilog",
            "Definition f (a: nat)\n    (b: nat) : nat :=\n  y();\n",
            "Definition f (a: nat)\n    (b: nat) : nat :=\n",
        ),
        (
            "proofs",
            "theorem one (n : Nat) :\n    n = n := by\n  y();\n",
            "theorem one (n : Nat) :\n    n = n := by\n",
        ),
        (
            "pascal",  # Ada
            "function Find\n  (Text : String)\n   return Natural\nis\nbegin\n   y();\nend Find;\n",
            "function Find\n  (Text : String)\n   return Natural\n",
        ),
        (
            "pascal",
            "procedure Find\n  (Text : String;\n   Last : Natural);\n\nprocedure X;\n",
            "procedure Find\n  (Text : String;\n   Last : Natural);\n",
        ),
        ("pascal", "type Pin is\n  (One,\n   Two);\n\nx\n", "type Pin is\n  (One,\n   Two);\n"),
        # What is in parentheses after its end is no part of a signature.
        ("fsharp", "let f (a: int) = g(fun b ->\n    y();\n    b)\n", "let f (a: int) = g(fun b ->\n"),
        ("ocaml", "let f = g (fun a ->\n    y();\n    a)\n", "let f = g (fun a ->\n"),
        ("ocaml", "let f x = (* of x *)\n  let y = y(); in\n  y\n", "let f x = (* of x *)\n"),
        # The colon of a constraint is no end.
        (
            "fsharp",
            "type T() =\n    member F<'a when 'a : null>(\n            x: 'a\n        ) =\n        y();\n",
            "    member F<'a when 'a : null>(\n            x: 'a\n        ) =\n",
        ),
        ("shell", "f() (\n  y();\n)\n", "f() (\n"),
    ],
)
def test_a_signature_of_several_lines_is_whole(language: str, text: str, signature: str) -> None:
    known = BY_NAME[language]
    shown = "".join(one.text for one in signatures(text.encode(), definitions(text.encode(), known), known))
    assert signature in shown
    assert "y();" not in shown


VUE = """<template>
  <p>é function no() {}</p>
</template>
<script setup lang="ts">
interface Props { size: number }

function total(x: number): number {
  return x * 2;
}
</script>
<style>a { b: c }</style>
"""


WHOLE = {
    "haskell": (
        (
            "data S = S {\n    sA :: Int,\n    sB :: String\n  } deriving (Show, Eq)\n\n"
            "(+++) :: Int -> Int\na +++ b = a\n\nf x\n  | x > 1 = 2\n  | y = 3\ng :: Int\ng = 1\n"
        ),
        (
            "data S = S {\n    sA :: Int,\n    sB :: String\n  } deriving (Show, Eq)\n"
            "(+++) :: Int -> Int\na +++ b = a\ng :: Int\n"
        ),
    ),
    "dart": (
        (
            "enum Level {\n  low(1);\n\n  const Level(this.value);\n}\n"
            "class Todo extends Equatable\n    with Mix {\n  String? title;\n  int count = 0;\n\n"
            "  void on<E extends Event>(Handler<E> h) {\n    final x = foo(1);\n  }\n}\n"
        ),
        (
            "enum Level {\n  low(1);\n\n  const Level(this.value);\n}\n"
            "class Todo extends Equatable\n    with Mix {\n  String? title;\n  int count = 0;\n"
            "  void on<E extends Event>(Handler<E> h) {\n"
        ),
    ),
    "fsharp": (
        (
            "type Rec =\n    { A: int\n      B: string }\n    static member Zero = 0\n\n"
            "let foo\n    (a: int)\n    (b: string)\n    : int =\n    let c = a\n    c\n"
            "let inline (@@) one other =\n    combined one other\n"
        ),
        (
            "type Rec =\n    { A: int\n      B: string }\n    static member Zero = 0\n"
            "let foo\n    (a: int)\n    (b: string)\n    : int =\n"
            "let inline (@@) one other =\n"
        ),
    ),
    "nim": (
        "const\n  X* = 1\n\nproc foo*(a: int): string =\n  ## Does foo well.\n  result = a\n",
        "  X* = 1\n# Does foo well.\nproc foo*(a: int): string =\n",
    ),
    "solidity": (
        (
            "contract C {\n    uint256[] public list;\n    address payable owner;\n"
            "    function f(\n        uint a\n    )\n        external\n        returns (uint)\n    {\n"
            "        uint b = 1;\n    }\n}\n"
        ),
        (
            "contract C {\n    uint256[] public list;\n    address payable owner;\n"
            "    function f(\n        uint a\n    )\n        external\n        returns (uint)\n"
        ),
    ),
    "julia": (
        "@enum Color red green\nBase.@kwdef struct Opt\n    a::Int = 1\n    Opt(x) = new(x)\nend\n",
        "@enum Color red green\nBase.@kwdef struct Opt\n    a::Int = 1\n    Opt(x) = new(x)\nend\n",
    ),
    "elixir": (
        (
            'defmodule User do\n  schema "users" do\n    field :name, :string\n  end\n\n'
            "  def change(user) do\n    user\n  end\nend\n"
        ),
        'defmodule User do\n  schema "users" do\n    field :name, :string\n  end\n  def change(user) do\n',
    ),
    "perl": (
        (
            "has [qw(domain path)];\n\nsub parse {\n  my ($self, $str) = @_;\n  return 1;\n}\n\n"
            "=head1 SYNOPSIS\n\n  has 'example';\n\n  sub example { }\n\n=cut\n\nsub last { 1 }\n\n"
            "=head2 parse\n\n=head1 END\n\nsub none { 1 }\n"
        ),
        "has [qw(domain path)];\nsub parse {\n  my ($self, $str) = @_;\nsub last { 1 }\n",
    ),
    "terraform": (
        'variable "a" {\n  type = string\n}\n\nlocals {\n  n = 1\n}\n\nresource "vpc" "x" {\n  a = 1\n}\n',
        'variable "a" {\n  type = string\n}\nlocals {\n  n = 1\n}\nresource "vpc" "x" {\n',
    ),
    "cobol": (
        (
            "       PROGRAM-ID.    CBL1.\n       FILE SECTION.\n       01  PRINT-REC.\n"
            "           05  ACCT-NO-O      PIC X(8).\n       PROCEDURE DIVISION.\n       OPEN-FILES.\n"
            "           OPEN INPUT A.\n           END-IF.\n           EXIT.\n       CLOSE-FILES SECTION.\n"
        ),
        (
            "       PROGRAM-ID.    CBL1.\n       01  PRINT-REC.\n"
            "           05  ACCT-NO-O      PIC X(8).\n       OPEN-FILES.\n       CLOSE-FILES SECTION.\n"
        ),
    ),
    "fortran": (
        (
            "module k\n  integer, parameter, public :: RK = 8\ncontains\n  function f(x)\n"
            "    integer, parameter :: no = 1\n  end function\nend module\n"
        ),
        "module k\n  integer, parameter, public :: RK = 8\n  function f(x)\n",
    ),
    "erlang": (
        "-record(state, {\n" + "\ta = 1 :: integer(),\n" * 20 + "\tlast\n}).\n\nf(X) -> X.\n",
        "-record(state, {\n" + "\ta = 1 :: integer(),\n" * 20 + "\tlast\n}).\nf(X) -> X.\n",
    ),
    "r": (
        "#' Call it.\n"
        + "#' More of it.\n" * 300
        + "f <- function(\n"
        + "  a = 1,\n" * 20
        + "  b\n) {\n  1\n}\n",
        "# Call it.\nf <- function(\n" + "  a = 1,\n" * 20 + "  b\n) {\n",
    ),
    "crystal": (
        (
            "# Where people buy.\nclass Shop::Cart < Base\n  include Priced\n  getter lines : Array(Line)\n\n"
            "  LIMIT = 20\n\n  # Adds (once).\n  def add?(line) : Bool\n    x = 1\n  end\nend\n\n"
            "enum Color\n  Red\nend\n"
        ),
        (
            "# Where people buy.\nclass Shop::Cart < Base\n  include Priced\n  getter lines : Array(Line)\n"
            "  LIMIT = 20\n  # Adds (once).\n  def add?(line) : Bool\nenum Color\n  Red\nend\n"
        ),
    ),
    "vhdl": (
        (
            "entity uart is\n"
            + "".join(f"  -- Says what line {n} of the port is for.\n" for n in range(9))
            + "  port (clk : in bit);\nend entity;\n\narchitecture a of uart is\n"
            + "".join(f"  signal s{n} : std_ulogic_vector(31 downto 0);\n" for n in range(12))
            + "begin\n  main : process(clk)\n  begin\n  end process;\nend architecture;\n"
        ),
        (
            "entity uart is\n"
            + "".join(f"  -- Says what line {n} of the port is for.\n" for n in range(9))
            + "  port (clk : in bit);\nend entity;\narchitecture a of uart is\n"
            + "".join(f"  signal s{n} : std_ulogic_vector(31 downto 0);\n" for n in range(12))
            + "begin\n  main : process(clk)\n"
        ),
    ),
    "sass": (
        "$brand: #fff;\n@mixin card($a) {\n  $b: 1;\n}\n",
        "$brand: #fff;\n@mixin card($a) {\n",
    ),
    "sql": (
        (
            "{{ config(materialized='view') }}\n\nwith a as (\n\n    select 1 as id\n\n),\n\nfinal as (\n"
            "    select id from a\n)\n\nselect id\nfrom final\n"
        ),
        (
            "{{ config(materialized='view') }}\nwith a as (\n\n    select 1 as id\n\n),\nfinal as (\n"
            "    select id from a\n)\nselect id\nfrom final\n"
        ),
    ),
}


@pytest.mark.parametrize("path", SHARED)
def test_a_suffix_may_be_of_several_languages(path: str) -> None:
    text, wanted = SHARED[path]
    known = BY_NAME[kind_of(path, text).outline or ""]
    for module in known.modules:
        pytest.importorskip(module)
    assert [name for piece in shape(text, known.name).pieces for name in piece.names] == wanted


@pytest.mark.parametrize("language", WHOLE)
def test_an_outline_is(language: str) -> None:
    text, wanted = WHOLE[language]
    known = BY_NAME[language]
    found = definitions(text.encode(), known)
    assert "".join(one.text for one in signatures(text.encode(), found, known)) == wanted


def test_ends_of_comments_that_nothing_opens_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (b" *)\n" * 700 + b"let x = 1\n\n") * 20
    searched: list[int] = []
    search = headed._Reader._block_start  # noqa: SLF001  # nothing else shows how often it searches

    def counted(reader: headed._Reader, n: int, free: int, line: bytes) -> int | None:
        searched.append(n)
        return search(reader, n, free, line)

    monkeypatch.setattr(headed._Reader, "_block_start", counted)  # noqa: SLF001  # see above
    assert len(definitions(source, BY_NAME["ocaml"])) == 20
    assert len(searched) == 20


def test_a_long_type_is_cut_with_a_mark() -> None:
    source = ("module Big = struct\nend\n\ntype t = {\n" + "  field : int;\n" * 90 + "}\n").encode()
    known = BY_NAME["ocaml"]
    *_, last = (one.text for one in signatures(source, definitions(source, known), known))
    assert last.startswith("type t = {\n  field : int;\n")
    assert last.endswith("  field : int; ...\n")
    assert len(last) < 700


ASTRO = """---
interface Props { size: number }
const { size } = Astro.props;
---
<p>function no() {}</p>
<script>
function total(x) {}
</script>
"""


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        (VUE, ["function total(x: number): number", "interface Props"]),
        (ASTRO, ["interface Props", "const { size } = Astro.props;", "function total(x)"]),
    ],
    ids=["vue", "astro"],
)
def test_the_script_of_a_page_is_read(page: str, wanted: list[str]) -> None:
    known = BY_NAME["vue"]
    pytest.importorskip(known.module)
    lines = "".join(one.text for one in signatures(page.encode(), definitions(page.encode(), known), known))
    assert all(signature in lines for signature in wanted)
    assert "no()" not in lines


def test_tags_that_nothing_closes_are_no_script() -> None:
    known = BY_NAME["vue"]
    pytest.importorskip(known.module)
    assert definitions(b"<script" * 9_000, known) == definitions(b"<script>" * 9_000, known) == ()


def test_operators_and_patterns_of_fsharp_have_names() -> None:
    source = b"let inline (@@) one other = one\nlet (|Even|Odd|) n = n\nlet inline twice x = x\n"
    known = BY_NAME["fsharp"].heads
    assert known is not None
    assert list(headed.names(source, known)) == ["@@", "|Even|Odd|", "twice"]


def test_the_members_of_an_interface_follow_a_value_of_several_lines_in_fsharp() -> None:
    source = (
        b"type Env () =\n    let targets =\n        [ 1 ]\n\n"
        b"    interface IReader with\n        member _.Name = 1\n        member _.Get key = 2\n"
    )
    known = BY_NAME["fsharp"]
    assert [one.text for one in signatures(source, definitions(source, known), known)] == [
        "type Env () =\n",
        "    let targets =\n",
        "    interface IReader with\n",
        "        member _.Name = 1\n",
        "        member _.Get key = 2\n",
    ]
    assert known.heads is not None
    assert "IReader" not in headed.names(source, known.heads)


@pytest.mark.parametrize(
    ("language", "above", "note"),
    [
        ("julia", "# get(x) -> Vector{String}", "# get(x) -> Vector{String}"),
        ("julia", "# Waits (up to a second)", "# Waits (up to a second)"),
        ("fortran", "!> Reads a file.", "! Reads a file."),
        ("fortran", "#ifdef REAL128\n! Its precision.", "! Its precision."),
        ("fsharp", "/// <summary>Reads a file.</summary>", "// Reads a file."),
        ("fsharp", "/// <exclude />\n/// Reads a file.", "// Reads a file."),
        ("haskell", "{-# LANGUAGE GADTs #-}\n-- Reads a file.", "-- Reads a file."),
        ("ocaml", "(** Reads (all of) it *)", "(* Reads (all of) it *)"),
        ("clike", "@ToString(includeNames = true, x = 1)\n// Reads a file.", "// Reads a file."),
        ("perl", "## no critic (Subroutines::ProhibitManyArgs)\n# Reads a file.", "# Reads a file."),
    ],
)
def test_a_note_is_not_cut_and_has_no_marks(language: str, above: str, note: str) -> None:
    code = {
        "julia": "function f(x)\nend",
        "fortran": "subroutine f(x)\nend",
        "fsharp": "let f x =\n    1",
        "haskell": "f :: Int",
        "ocaml": "let f x =\n  1",
        "clike": "class A {\n}",
        "perl": "sub f {\n}",
    }
    source = f"{above}\n{code[language]}\n".encode()
    known = BY_NAME[language]
    (one,) = signatures(source, definitions(source, known), known)
    assert one.text.splitlines()[0] == note


def test_a_language_is_looked_up_without_reading_its_fields() -> None:
    assert all(hash(known) == object.__hash__(known) for known in BY_NAME.values())
    assert all(hash(heads) == object.__hash__(heads) for heads in HEADS)


# A file, and the lines of its outline.
READ = {
    "alias.zig": (
        (
            'const std = @import("std");\nconst Allocator = std.mem.Allocator;\n'
            "const Self = @This();\n"
            "pub const Url = other.Url;\n\n"
            "pub fn Pool(T: type) type {\n    return struct { items: []T, };\n}\n\n"
            'pub extern "ws2_32" fn WSASocketW(\n    af: i32,\n) SOCKET;\n'
        ),
        ["pub const Url", "pub fn Pool(T", 'pub extern "ws2_32" fn WSASocketW(\n    af: i32,\n) SOCKET;'],
    ),
    "body.gleam": (
        (
            "import gleam/http.{\n  type Method as HttpMethod, type Header,\n}\n\n"
            "/// What is sent.\npub type Body {\n"
            "  Text(String)\n  Bytes(data: Tree)\n}\n\npub opaque type Id =\n  Int\n\n"
            "pub fn send(\n  body: Body,\n) -> Nil {\n  let x = 1\n  x\n}\n"
        ),
        [
            "// What is sent.\npub type Body {\n  Text(String)\n  Bytes(data: Tree)\n}",
            "pub opaque type Id =\n  Int",
            "pub fn send(\n  body: Body,\n) -> Nil {",
        ],
    ),
    "draw.typ": (
        "#let pi = 3\n\n/// Draws a line.\n#let line(from, to) = {\n  let dx = to - from\n  dx\n}\n",
        ["#let pi = 3", "// Draws a line.\n#let line(from, to) = {"],
    ),
    "player.gd": (
        (
            "class_name Player\nextends Node\n\n## States of it.\nenum State { IDLE, DEAD }\n\nsignal died\n"
            "@export var speed := 1.0\n\nfunc walk(to: Vector2) -> void:\n\tvar way = to\n\tgo(way)\n"
        ),
        [
            "class_name Player\nextends Node",
            "# States of it.\nenum State { IDLE, DEAD }",
            "signal died",
            "@export var speed := 1.0",
            "func walk(to: Vector2) -> void:",
        ],
    ),
    "find.lean": (
        (
            "namespace Find\n\n/-\nopaque definitions are\nclass of their own.\n-/\n\n"
            "/-- The root\nof a node. -/\n"
            "def root (n : Node) : Node := n\n\nend Find\n"
        ),
        ["-- The root\ndef root (n : Node) : Node := n"],
    ),
    "log.fs": (
        "namespace Shop.Core\n\nmodule Inner =\n    let one = 1\n",
        ["module Inner =\n", "    let one = 1"],
    ),
    "bag.ml": (
        "(** [blit from into] copies the elements\n    of one array. *)\nlet blit from into =\n  from\n",
        ["(* [blit from into] copies the elements *)\nlet blit from into ="],
    ),
    "core.clj": (
        (
            '(defn routes\n  "Some \\"routes\\"\n  of it."\n  [& handlers]\n  1)\n\n'
            "(defn other\n  ([a] 1)\n  ([a b] 2))\n"
        ),
        ['(defn routes\n  "Some \\"routes\\"\n  of it."\n  [& handlers]', "(defn other\n  ([a] 1)"],
    ),
    "Exif.pm": (
        (
            "sub Later($$);\n\nsub Later($$)\n{\n    print <<EOT;\nafter the tag name)\nname.\nEOT\n}\n\n"
            "has name => (is => 'ro');\n"
        ),
        ["sub Later($$)", "has name => (is => 'ro');"],
    ),
    "Token.sol": (
        (
            "contract Token {\n    uint256 public supply;\n\n"
            "    /*////////\n       EVENTS\n    ////////*/\n\n"
            "    event Sent(address to);\n}\n"
        ),
        ["contract Token {\n    uint256 public supply;\n", "    event Sent(address to);"],
    ),
}


@pytest.mark.parametrize("path", READ)
def test_an_outline_has_what_the_file_defines(path: str) -> None:
    text, wanted = READ[path]
    language = BY_NAME[kind_of(path, text.encode()).outline or ""]
    found = signatures(text.encode(), definitions(text.encode(), language), language)
    lines = "".join(one.text for one in found)
    for signature in wanted:
        assert signature in lines
        lines = lines.replace(signature, "", 1)
    assert not re.search(r"\b(?:Allocator|Self|std|Method|dx|way|opaque|class|after|EVENTS|Core)\b", lines), (
        lines
    )


def test_a_sub_that_is_only_announced_is_no_definition() -> None:
    text = READ["Exif.pm"][0].encode()
    known = BY_NAME[kind_of("Exif.pm", text).outline or ""]
    found = [one.text for one in signatures(text, definitions(text, known), known)]
    assert found == ["sub Later($$)\n", "has name => (is => 'ro');\n"]


def test_a_type_after_def_is_no_name_in_groovy() -> None:
    source = (
        b"class Label {\n    def List<Part> parts = []\n    def private Buffer text = null\n    def max\n"
        b"    def show(x) {\n        x\n    }\n}\n"
    )
    known = BY_NAME["clike"]
    found = signatures(source, definitions(source, known), known)
    assert [one.name for one in found] == ["Label", "parts", "text", "max", "show"]


def test_blanks_in_a_type_are_read_once() -> None:
    """A license was searched from each of them to the end of all: 200,000 took more than half a minute."""
    source = b"class A {\n" + b" " * 200_000 + b"\n  int x() {\n    return 1;\n  }\n}\n"
    started = time.process_time()
    assert [one.name for one in definitions(source, BY_NAME["clike"])[0].inside] == ["x"]
    assert time.process_time() - started < 10  # seconds; a hundredth of one is usual
