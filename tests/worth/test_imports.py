"""What texts import, and what a mention means: one case a rule of a language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox.worth.documents import Document, DocumentRole, PieceSpan
from tokenbox.worth.imports import home_of, imports_of
from tokenbox.worth.standing import Standing

FAMILIES = ["cs", "go", "java", "js", "lua", "php", "py", "rb", "rs"]


@pytest.mark.parametrize(
    ("family", "path", "text", "names", "wholes", "renamed"),
    [
        ("py", "shop/a.py", "from b.c import d", "b/c:d", "", ""),
        ("py", "shop/a.py", "from . import d", "shop:d", "", ""),
        ("py", "shop/web/a.py", "from ..b import (c,  # why\n    d as e)", "shop/b:c shop/b:d", "", "e=d"),
        ("py", "a.py", "from b import c, \\\n    d", "b:c b:d", "", ""),
        ("py", "a.py", "from b import *\nimport c, d.e as f", "", "b", "f=d/e"),
        (
            "js",
            "x/a.ts",
            "import A, { type B, c as d } from './q/index.js'",
            "x/q:A x/q:B x/q:c",
            "",
            "a=x/q d=c",
        ),
        ("js", "x/y/a.ts", "import * as n from '../m'", "", "", "n=x/m"),
        (
            "js",
            "a.js",
            "const { e, f: g } = require('h/i'); const z = require('z')",
            "i:e i:f i:g z:z",
            "",
            "z=z",
        ),
        (
            "js",
            "x/a.js",
            "export * from './b'\n/** @import { T } from '#c' */\nimport('./d').U;",
            "c:T x/d:U",
            "",
            "",
        ),
        ("js", "a.ts", "import type { W } from '@scope/pkg'", "pkg:W", "", ""),
        (
            "java",
            "s/a.kt",
            "package p.q\nimport io.x.*\nimport io.y.F.B as Z",
            "io.y:F f:B",
            "p.q io.x",
            "z=b",
        ),
        (
            "java",
            "s/a.scala",
            "import a.b.{C, D => E, _}\nimport a.b.C._",
            "a.b:C a.b:D a.b:E",
            "a.b c s/",
            "",
        ),
        ("java", "A.java", "import static a.B.c;\r\n", "a:B b:c", "/", ""),
        ("php", "a.php", "namespace N\\M;\nuse A\\B\\C;\nuse A\\{D, E};", "a\\b:C a:D a:E", "n\\m", ""),
        ("php", "s/a.php", "use function A\\f as g;", "a:f", "s/", "g=f"),
        (
            "rs",
            "a.rs",
            "use a::u::{p, b::{C, D as E}, f::*, self};\nuse super::*;",
            "u:p b:C b:D",
            "super f",
            "e=d",
        ),
        ("rs", "a.rs", "pub use {a::Q, b::R};\nmake!(1)", "a:Q b:R crate:make", "", ""),
        ("lua", "a.lua", 'local t = require "k.t"\nlocal c = require("k.u").c', "k/u:c", "", "t=k/t c=c"),
        ("rb", "a.rb", "module Shop\n  class Web::Cart < Base\n  end\nend", "", ". cart shop web", ""),
        ("cs", "a.cs", "using System;\nglobal using A.B;\nnamespace C.D;", "", ". a.b c c.d system", ""),
        ("go", "shop/a.go", 'package shop\nimport "fmt"', "", "shop/", ""),
    ],
)
def test_what_a_text_imports(
    family: str, path: str, text: str, names: str, wholes: str, renamed: str
) -> None:
    found = imports_of(path, text.encode(), family)
    assert found is not None
    assert {f"{place.decode()}:{name.decode()}" for place, name in found.names} == set(names.split())
    assert found.wholes == {place.encode() for place in wholes.split()}
    assert {f"{name.decode()}={place.decode()}" for name, place in found.renamed.items()} == set(
        renamed.split()
    )


@pytest.mark.parametrize(
    ("family", "path", "text"),
    [("js", "a.js", "var x = state"), ("lua", "a.lua", "x = state"), ("c", "a.c", "")],
)
def test_where_no_import_is_needed_none_is_found(family: str, path: str, text: str) -> None:
    assert imports_of(path, text.encode(), family) is None


@given(
    text=st.text(alphabet="import from*{}(),;.\\/'\"as use require\n _", max_size=300),
    family=st.sampled_from(FAMILIES),
)
def test_any_text_can_be_read(text: str, family: str) -> None:
    data = text.encode()
    imports_of("a/b.x", data, family)
    home_of("a/b.java", data, family, [b"A"])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_time_grows_with_the_size_whatever_stands_there(family: str) -> None:
    """With a backtracking pattern, these take minutes."""
    for part in (
        b"import" + b" " * 100_000,
        b"import {" * 30_000,
        b"use a " * 30_000,
        b"from . import a" * 20_000,
    ):
        imports_of("a/b.x", part, family)


def worth_of(name: str, *documents: Document) -> int:
    """The worth of a piece of the first document that defines ``name``."""
    return Standing(documents).pieces([(0, PieceSpan(0, 1, 400, 440, (name,)))])[0]


def users(extension: str, text: str, count: int = 8) -> list[Document]:
    return [Document(f"web/u{n}.{extension}", text.encode()) for n in range(count)]


@pytest.mark.parametrize(
    ("home", "text", "name", "means", "other"),
    [
        (
            "lib/state.js",
            "export function state() {}\n",
            "state",
            "import { state } from '../lib/state.js'\nstate()",
            "import { x } from '../lib/x.js'\nlet state = x; state()",
        ),
        (
            "lib/types.ts",
            "export interface Context {\n",
            "Context",
            "import type { Context } from '../lib/types'",
            "import type { Context } from './types'",
        ),
        (
            "lib/build.js",
            "export function call() {}\n",
            "call",
            "import * as b from '../lib/build.js'\nb.call()",
            "import b from 'react'\nb.call()",
        ),
        (
            "shop/cart.py",
            "def total(): pass\n",
            "total",
            "from shop.cart import total",
            "total = 1\nprint(total)",
        ),
        ("shop/cart.py", "def total(): pass\n", "total", "import shop.cart as c\nc.total()", "c.total()"),
        (
            "a/Cart.kt",
            "package shop\n\nclass Cart(\n",
            "Cart",
            "package web\nimport shop.Cart\nval x: Cart",
            "package web\nimport other.Cart\nval x: Cart",
        ),
        (
            "a/Cart.java",
            "package shop;\n\npublic class Cart {\n",
            "Cart",
            "package shop;\nclass X { Cart x; }",
            "package web;\nclass X { Cart x; }",
        ),
        (
            "src/Cart.php",
            "<?php\nnamespace Shop;\nclass Cart {\n",
            "Cart",
            "use Shop\\Cart;\n",
            "use Other\\Cart;\n",
        ),
        ("src/cart.rs", "pub struct Cart {\n", "Cart", "use crate::cart::Cart;\n", "use other::Cart;\n"),
        (
            "lib/cart.rb",
            "module Shop\n  class Cart\n  end\nend\n",
            "Cart",
            "module Shop\n  class Web\n    Cart.new\n  end\nend\n",
            "Cart.new\n",
        ),
        (
            "src/Cart.cs",
            "namespace Shop.Core\n{\n    public class Cart\n    {\n    }\n}\n",
            "Cart",
            "using Shop.Core;\nvar x = new Cart();\n",
            "using System;\nvar x = new Cart();\n",
        ),
        (
            "kong/table.lua",
            "local function concat(a)\n",
            "concat",
            'local t = require "kong.table"\nt.concat(1)',
            'local t = require "other"\nlocal concat = 1',
        ),
    ],
)
def test_only_a_name_from_there_is_a_mention(home: str, text: str, name: str, means: str, other: str) -> None:
    document, extension = Document(home, text.encode()), home.rpartition(".")[2]
    alone = worth_of(name, document)
    assert worth_of(name, document, *users(extension, other)) == alone
    assert worth_of(name, document, *users(extension, means)) > alone


@pytest.mark.parametrize(
    ("home", "text", "offer", "offers", "use"),
    [
        (
            "ecs/src/change/params.rs",
            "pub struct Cart {\n",
            "ecs/src/system/mod.rs",
            "pub use crate::change::{Cart, Other};\n",
            "use ecs::system::Cart;\n",
        ),
        (
            "ecs/src/change/params.rs",
            "pub struct Cart {\n",
            "ecs/src/lib.rs",
            "pub mod prelude {\n    pub use crate::change::Cart;\n}\n",
            "use bevy::prelude::*;\nfn f(x: Cart) {}\n",
        ),
        (
            "shared/cart.ts",
            "export function cart() {}\n",
            "core/index.ts",
            "export { cart } from '../shared/cart'\n",
            "import { cart } from '../core'\ncart()\n",
        ),
    ],
)
def test_a_name_is_also_taken_from_what_offers_it(
    home: str, text: str, offer: str, offers: str, use: str
) -> None:
    name = "cart" if home.endswith(".ts") else "Cart"
    document, extension = Document(home, text.encode()), home.rpartition(".")[2]
    among = [Document(f"else/o{n}.{extension}", b"x\n") for n in range(8)]
    offering = Document(offer, offers.encode())
    without = worth_of(name, document, offering, *among)
    assert worth_of(name, document, *among, *users(extension, use)) == worth_of(name, document, *among)
    assert worth_of(name, document, offering, *among, *users(extension, use)) > without


def test_what_is_in_an_object_of_scala_is_imported_as_from_a_package() -> None:
    text = b"package shop.util\n\nobject cart {\n  sealed abstract class Cart {\n  }\n}\n"
    home = Document("util/cart.scala", text)
    use = users("scala", "package web\nimport shop.util.cart.Cart\nval x: Cart\n")
    assert worth_of("Cart", home, *use) > worth_of("Cart", home)
    other = users("scala", "package web\nimport other.cart.Cart\nval x: Cart\n")
    assert worth_of("Cart", home, *other) == worth_of("Cart", home)


def test_a_method_of_matlab_is_not_meant_elsewhere() -> None:
    text = b"function x = isfield(this)\nx = 1;\nend\n"
    method, function = (
        Document(path, text, defines=(b"isfield",)) for path in ("f/@cart/isfield.m", "f/isfield.m")
    )
    calls = users("m", "x = isfield(y);\n")
    assert worth_of("isfield", method, *calls) == worth_of("isfield", method)
    assert worth_of("isfield", function, *calls) > worth_of("isfield", function)


def test_the_parts_of_a_type_are_one_definition() -> None:
    part = b"namespace Shop\n{\n    public partial class Cart\n    {\n    }\n}\n"
    main, more = Document("web/Cart.cs", part), Document("other/Cart.Windows.cs", part)
    use = users("cs", "using Shop;\nvar x = new Cart();\n")
    assert worth_of("Cart", main, more, *use) == worth_of("Cart", main, *use)
    assert worth_of("Cart", more, main, *use) < worth_of("Cart", main, more, *use)


def test_a_mention_counts_for_the_definition_that_is_imported() -> None:
    text = b"export function open() {}\n"
    here, there = Document("a/file.js", text), Document("b/file.js", text)
    mean_here = users("js", "import { open } from '../a/file'\n")
    assert worth_of("open", here, there, *mean_here) == worth_of("open", here, *mean_here)
    assert worth_of("open", there, here, *mean_here) == worth_of("open", there)


def test_a_name_is_mentioned_in_its_package_and_where_it_is_imported() -> None:
    home = Document("a/Cart.java", b"package shop;\n\npublic class Cart {\n")
    near = [Document(f"a/n{n}.java", b"package shop;\nCart x;\n") for n in range(4)]
    far = [Document(f"b/f{n}.java", b"package web;\nimport shop.Cart;\nCart x;\n") for n in range(4)]
    other = [Document(f"b/o{n}.java", b"package web;\n") for n in range(8)]
    both = worth_of("Cart", home, *near, *far, *other)
    assert both > worth_of("Cart", home, *near, *other)
    assert both > worth_of("Cart", home, *far, *other)


def test_what_everybody_mentions_is_no_mention_of_what_some_import() -> None:
    """``String`` comes with the language: files that import all of ``io`` mention it as often as others."""
    home = Document("io/Strings.kt", b"package io\n\nfun String(x: Int) = x\nclass Buffer(\n")
    importing = users("kt", "package web\nimport io.*\nval x: String = Buffer()\n")
    others = [Document(f"else/o{n}.kt", b"package other\nval x: String\n") for n in range(8)]
    assert worth_of("Buffer", home, *importing, *others) > 4 * worth_of("String", home, *importing, *others)
    assert worth_of("String", home, *importing) == worth_of("Buffer", home, *importing)


@pytest.mark.parametrize("extension", ["cs", "java", "kt", "scala", "swift"])
def test_a_type_in_a_type_is_meant_after_its_name_only(extension: str) -> None:
    home = Document(f"web/Header.{extension}", b"class Header {\n  class Any {\n  }\n}\n")
    alone = worth_of("Any", home)
    assert worth_of("Any", home, *users(extension, "x: Any\n")) == alone
    assert worth_of("Any", home, *users(extension, "x: Header.Any\n")) > alone
    assert worth_of("Header", home, *users(extension, "x: Header\n")) > alone


def test_a_test_tells_where_a_name_is_from_as_well() -> None:
    home = Document("lib/assert.js", b"export function equal() {}\n")
    tests = [
        Document(
            f"test/t{n}.js", b"import assert from 'node:assert'\nassert.equal(1, 1)", 100, DocumentRole.TEST
        )
        for n in range(40)
    ]
    assert worth_of("equal", home, *tests) == worth_of("equal", home)


@pytest.mark.parametrize(
    "text",
    [
        "static void error(char *text) {\n}\n",
        "static inline struct a *\nerror(char *text)\n{\n}\n",
        "#define error(x) x\n",
    ],
)
def test_what_a_c_file_keeps_to_itself_is_not_meant_elsewhere(text: str) -> None:
    calls = [Document(f"src/u{n}.c", b'void f(void) {\n  error("x");\n}\n') for n in range(8)]
    own, header = Document("src/intset.c", text.encode()), Document("src/intset.h", text.encode())
    public = Document("src/intset.c", b"void error(char *text) {\n}\n")
    assert worth_of("error", own, *calls) == worth_of("error", own)
    assert worth_of("error", header, *calls) > worth_of("error", header)
    assert worth_of("error", public, *calls) > worth_of("error", public)
