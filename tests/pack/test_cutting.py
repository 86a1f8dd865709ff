"""What was found in a file is found once, and never believed if it was changed."""

from __future__ import annotations

import ast
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compose.independent import HOSTILE
from tests.pack.conftest import Memory
from tokenbox.content.lenses.syntax import works
from tokenbox.folder import PackOptions, cutting, pack_source
from tokenbox.folder.cutting import cut_all, names_in
from tokenbox.folder.pieces import shape as found_by
from tokenbox.store.stored_counts import FILE_NAME, StoredCounts
from tokenbox.worth import copies

if TYPE_CHECKING:
    from tests.pack.conftest import Make, Packed

SOURCE = "".join(f"def name_{n}(x):\n    '''Line {n}.'''\n    return x + {n}\n\n\n" for n in range(90))


LINES = ("class A:\n", "  x = 1\n", "def f(x) do\n", "(defn g [])\n")


@given(
    st.lists(
        st.tuples(
            st.lists(
                st.sampled_from(
                    [*HOSTILE, SOURCE, "class A:\n", "  x = 1\n", "def f(x) do\n", "(defn g [])\n"]
                ),
                max_size=5,
            ).map("".join),
            st.sampled_from(["python", "go", "elixir", "lisp", None]),
        ),
        max_size=4,
    )
)
def test_what_is_remembered_is_what_would_be_found(texts: list[tuple[str, str | None]]) -> None:
    contents = [(text.encode("utf-8", "surrogatepass"), language) for text, language in texts]
    memory = Memory()
    found, names = cut_all(contents, None), names_in(contents, None)
    for _ in range(2):
        assert cut_all(contents, memory) == found
        assert names_in(contents, memory) == names


def test_the_second_pack_parses_nothing_and_is_the_same(folder: Make, packed: Packed, tmp_path: Path) -> None:
    source = packed(folder({"a.py": SOURCE, "b.py": SOURCE.replace("name", "other"), "c.md": "# x\n" * 900}))

    def text() -> str:
        with StoredCounts(tmp_path / "cache") as cache:
            return pack_source(
                source, "o200k_base", 900, options=PackOptions("what is name_7?"), cache=cache
            ).text

    first = text()
    with (
        patch("tokenbox.folder.cutting.shape", side_effect=found_by) as shape,
        patch("tokenbox.worth.copies.runs", side_effect=copies.runs) as runs,
    ):
        assert text() == first
    assert [call.args[1] for call in shape.call_args_list if call.args[1] is not None] == []
    assert [call.args[0] for call in runs.call_args_list if b"def" in call.args[0]] == []


def test_what_is_small_is_stored_as_it_is() -> None:
    """For 5,000 small files zlib would take a second."""
    memory = Memory()
    found = cut_all([(b"def f(x):\n    return x\n", "python"), (SOURCE.encode(), "python")], memory)
    with patch("tokenbox.folder.cutting.shape", side_effect=found_by) as shape:
        assert cut_all([(b"def f(x):\n    return x\n", "python")], memory) == found[:1]
    assert shape.call_args_list == []
    small, large = sorted(memory.facts.values(), key=len)
    assert (b'"f"' in small, b'"name_1"' in large) == (True, False)


def test_what_was_changed_on_the_disk_is_not_believed(folder: Make, packed: Packed, tmp_path: Path) -> None:
    small = {f"c{n}.py": f"def small_{n}():\n    pass\n" for n in range(9)}
    source = packed(folder({"a.py": SOURCE, "b.py": SOURCE.replace("name", "other"), **small}))

    def text() -> str:
        with StoredCounts(tmp_path) as cache:
            return pack_source(
                source, "o200k_base", 900, options=PackOptions("what is name_7?"), cache=cache
            ).text

    first = text()
    assert text() == first
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        (number,) = connection.execute("SELECT count(*) FROM facts").fetchone()
        assert number >= 4
        connection.execute("UPDATE facts SET value = substr(value, 1, length(value) - 3) || x'000102'")
    assert text() == first


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("csharp", "class C {\n  const int X = 1;\n  int f;\n  event A b;\n}\n", ("C", "X", "f", "b")),
        ("php", "<?php\nclass C {\n  const X = 1;\n  public int $y;\n}\n", ("C", "X", "$y")),
        ("sql", "CREATE TABLE app.users (\n  id INT\n);\nCREATE VIEW v AS SELECT 1;\n", ("users", "v")),
        ("rust", "struct A { b: u8 }\nimpl Clone for A { fn c(&self) {} }\n", ("A", "b", "A", "c")),
        ("shell", "#!/bin/sh\nset -e\n\n# Then it says hi.\necho hi\n", ("Then it says hi.",)),
        (None, "# T\n\n```sh\n# no heading\nls\n```\n\n## One\n\ntext\n", ("T", "One")),
    ],
)
def test_a_piece_has_the_names_that_it_defines(
    language: str | None, text: str, names: tuple[str, ...]
) -> None:
    if language is not None and not works(language):
        pytest.skip(f"the grammar for {language} is not installed")
    (cut,) = cut_all([(text.encode(), language)], None)
    assert tuple(name for piece in cut.pieces for name in piece.names) == names


def test_a_brace_that_closes_a_type_is_in_the_piece_before_it() -> None:
    """It was a piece of its own, shown as a filler that tells nothing."""
    methods = "".join(f"    fn f{n}(&self) -> u8 {{\n        {n}\n    }}\n\n" for n in range(10))
    for after in ("", "fn last() {\n    f()\n}\n"):
        pieces = found_by(f"impl Cart {{\n{methods}}}\n\n{after}".encode(), "rust").pieces
        assert [piece.last - piece.first > 2 for piece in pieces] == [True] * len(pieces)


def test_a_type_that_is_only_declared_is_not_defined() -> None:
    """They took the place of signatures in the outlines of headers."""
    text = """class Accessor;
struct Item;
enum class Color : int;
template <class T> class Box;
class Cart {
    friend class Shop;
    friend bool operator==(const Cart &a, const Cart &b);
};
struct item *made(int);
"""
    (piece,) = found_by(text.encode(), "cpp").pieces
    assert piece.names == ("Cart", "operator==", "made")


def test_a_template_has_the_name_of_what_it_declares() -> None:
    """It had that of its first parameter, as ``T``, if it was declared without a body."""
    text = """template <class T> void sort(T *first);
template <class T> T zero = 0;
template <class T> using Pointer = T *;
template <class T> class Box /* elsewhere */;
class Cart {
    template <class U> friend class Shop;
    template <class U> friend void swap(U &a, U &b);
};
"""
    (piece,) = found_by(text.encode(), "cpp").pieces
    assert piece.names == ("sort", "zero", "Pointer", "Cart", "swap")


def test_fenced_code_of_a_document_is_not_cut_at_its_blank_lines() -> None:
    code = "```python\n" + "x = 1\n\n" * 10 + "```\n\n"
    text = "".join(f"# Part {n}\n\nSome text.\n\n{code}" for n in range(6))
    for piece in found_by(text.encode(), None).pieces:
        assert text.encode()[piece.start : piece.end].count(b"```") % 2 == 0


# A box, each line of which is a comment.
BOX = "(*********************)\n(*  Copyright 2020   *)\n(*  under the terms  *)\n(*  of a license.    *)\n"
BSD = "!  Redistribution and use in source and binary forms\n!  are permitted provided that\n!\n!  the\n"
NOTICE = "// Copyright 2020 The Authors.\n//\n// Licensed under the Apache License.\n// See LICENSE.\n\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (NOTICE + "package main\n\nfunc main() {}\n", 5),
        ("/*\n * Copyright\n *\n * All rights reserved.\n */\nint main() {}\n", 5),
        ("/*\r\n * Copyright\r\n *\r\n * All rights reserved.\r\n */\r\nint main() {}\r\n", 5),
        ("\ufeff" + NOTICE + "package main\n\nfunc main() {}\n", 5),
        ("# one\n# two\n# three\n# four: SPDX-License-Identifier: MIT\nx = 1\n", 4),
        ("#pragma once\n\n" + NOTICE + "int x;\n", 7),
        ("#!/bin/sh\n\n# -*- mode: sh -*-\n\n" + NOTICE + "x\n", 9),
        (BOX.replace("of a license. ", "of the licence ") + "\nlet x = 1\n\nlet y = 2\n", 5),
        (BOX.replace("under", "some ") + "let x = 1\n", 0),
        (BSD + "x = 1\n", 4),
        ("--  The text is subject to the terms of\n" + "--  the MPL.\n" * 3 + "x\n", 4),
        ("/* a */ int x;\n" + NOTICE.replace("//", "/*", 1) + "*/\nint y;\n", 0),  # below code
        ("// one\n// two\n// three\n// four\n\n" + NOTICE + "x\n", 0),  # below what the file is about
        ("// The licensed users\n// are here\n\nfunc main() {}\n", 0),  # too short to matter
        ("// What this does\n// is long\n// and says\n// much.\n\nfunc main() {}\n", 0),
        # What has another mark is no part of it, nor is a text or a table with such words a license.
        ("// a\n// b\n// c\n// all rights reserved\n#include <x.h>\nint x;\n", 4),
        ('# a\n# b\n# c\n# all rights reserved\n"""Says what it does."""\nx = 1\n', 4),
        ('"id","licensed by"\n"1","me"\n"2","you"\n"3","all"\nx\n', 0),
        ('" a\n" b\n"\n" Licensed like Vim\nlet x = 1\n', 4),
        (NOTICE, 0),  # nothing but the license
    ],
)
def test_the_license_at_the_top_is_a_piece_of_its_own(text: str, lines: int) -> None:
    for language in (None, "go"):
        pieces = found_by(text.encode(), language).pieces
        assert [piece.last for piece in pieces if piece.is_notice] == ([lines] if lines else [])
        assert pieces[0].first == 0
        assert [piece.first for piece in pieces[1:]] == [piece.last for piece in pieces[:-1]]
        assert pieces[-1].end == len(text.encode())


def test_a_pack_has_room_for_licenses_last(folder: Make, packed: Packed) -> None:
    """The license of a file that is shown in part gives way to code; a file that fits is complete."""
    code = "".join(f"func Total{n}(cart Cart) int {{\n\treturn {n}\n}}\n\n" for n in range(300))
    root = folder({"cart.go": NOTICE + "package cart\n\n" + code, "small.go": NOTICE + "package small\n"})
    source, options = packed(root), PackOptions(query="the total of a cart")
    part = pack_source(source, "o200k_base", 1000, options=options)
    assert "func Total" in part.text
    assert "Copyright" not in part.text.partition('path="cart.go"')[2].partition("</code>")[0]
    whole = pack_source(source, "o200k_base", 100_000, options=options)
    assert whole.text.count("Copyright") == 2


def _named_by(node: ast.ImportFrom) -> list[str]:
    """Return the module that an import names, and what it takes from it, which may be modules."""
    return [str(node.module), *(f"{node.module}.{one.name}" for one in node.names)]


def test_the_key_of_a_cut_covers_all_code_that_cuts() -> None:
    """A module that is missing would leave old cuts in the caches of users after a change of it."""
    covered = {module.__name__ for module in cutting.CUT_RULES}
    plumbing = {"tokenbox.content.lenses.lens"}  # how a lens is registered, not what it finds
    for module in cutting.CUT_RULES:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        used = {name for node in froms for name in _named_by(node)} & set(sys.modules)
        of_cuts = {name for name in used if name.startswith(("tokenbox.content.lenses.", "tokenbox.folder."))}
        assert of_cuts <= covered | plumbing, module.__name__
