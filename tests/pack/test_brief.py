"""Brief outlines: of many signatures, those that most of the code refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tokenbox.content.lenses.outline import Signature
from tokenbox.folder import PackOptions, pack_source
from tokenbox.folder.candidates import Brief, brief
from tokenbox.folder.cutting import cut_all
from tokenbox.folder.languages import kind_of

if TYPE_CHECKING:
    from tests.pack.conftest import Make, Packed


def signature(name: str, depth: int = 0, size: int = 20) -> Signature:
    return Signature(0, f"{'  ' * depth}{name}".ljust(size, ".") + "\n", name, depth)


def shown(names: dict[str, int], *signatures: Signature) -> tuple[str, int, int] | None:
    found = brief(signatures, names.__getitem__)
    return found and (" ".join(line.strip(". ") for line in found.text.splitlines()), found.best, found.rest)


def test_names_worth_half_of_the_best_stay() -> None:
    worths = {"a": 10, "b": 100, "c": 49, "d": 50, "e": 0}
    assert shown(worths, *map(signature, worths)) == ("b d", 100, 49)


def test_what_is_around_a_name_stays() -> None:
    worths = {"A": 10, "a": 5, "B": 10, "b": 100, "c": 5, "C": 1, "d": 1}
    made = [signature(name, depth=not name.isupper()) for name in worths]
    assert shown(worths, *made) == ("B b", 100, 10)


def test_what_has_no_name_belongs_to_what_it_is_in() -> None:
    default = Signature(0, "  ...\n", "", 1)
    made = [signature("A"), default, signature("a", 1), default, signature("B"), default, signature("C")]
    found = brief(made, {"A": 9, "a": 1, "B": 1, "C": 1}.__getitem__)
    assert found == Brief("A...................\n  ...\n  ...\n", 9, 1)


def test_it_has_to_be_much_shorter() -> None:
    long, short = signature("long", size=71), signature("short", size=27)
    worths = {"long": 10, "short": 1}
    assert shown(worths, long, short) is None  # 72 of 100 characters
    assert shown(worths, long._replace(text=long.text[2:]), short._replace(text=f"..{short.text}"))


def test_without_references_there_is_none() -> None:
    assert shown({"a": 0, "b": 0}, signature("a"), signature("b")) is None
    assert shown({}) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 30)), max_size=12))
def test_as_by_the_rule(given_signatures: list[tuple[int, int, int]]) -> None:
    """``given_signatures``: depth, worth and size of each."""
    made = [signature(f"n{at}", depth, size + 9) for at, (depth, _, size) in enumerate(given_signatures)]
    worths = {one.name: worth for one, (_, worth, _) in zip(made, given_signatures, strict=True)}
    best = max(worths.values(), default=0)
    expected = ""
    for at, one in enumerate(made):
        inside = []
        for later in made[at + 1 :]:
            if later.depth <= one.depth:
                break
            inside.append(worths[later.name])
        if max([worths[one.name], *inside]) * 2 >= best:
            expected += one.text
    found = brief(made, worths.__getitem__)
    if not best or len(expected) * 10 > 7 * sum(len(one.text) for one in made):
        assert found is None
    else:
        rest = max(worth for worth in worths.values() if worth * 2 < best)
        assert found == Brief(expected, best, rest)


def header(folder: Make, packed: Packed, budget: int) -> str:
    """A pack of a header with forty macros, of which all files use one."""
    macros = "".join(
        f"#define LIMIT_{n} {n}  /* what is at most allowed of number {n} */\n" for n in range(40)
    )
    root = folder(
        {
            "limits.h": macros,
            **{
                f"use{n}.c": f"int f{n}(void) {{\n  if (LIMIT_7 > {n}) {{ return LIMIT_7 - {n}; }}\n"
                + f"  return {n};\n}}\n" * 30
                for n in range(20)
            },
        }
    )
    return pack_source(packed(root), "o200k_base", budget, options=PackOptions()).text


def test_a_small_budget_shows_the_macro_that_all_files_use_and_a_larger_one_the_others(
    folder: Make, packed: Packed
) -> None:
    small, large = header(folder, packed, 500), header(folder, packed, 3_000)
    assert "#define LIMIT_7 7" in small
    assert "#define LIMIT_8 8" not in small
    assert "int f3(void)" in small
    assert all(f"#define LIMIT_{n} {n}" in large for n in range(40))


def test_the_name_of_a_namespace_outweighs_nothing() -> None:
    made = [
        Signature(0, "defmodule Shop.Cart do\n", "Shop.Cart", 0),
        Signature(9, "  def add(cart, item) do\n", "add", 1),
        Signature(12, f"  def {'x' * 90}\n", "other", 1),
    ]
    found = brief(made, {"Shop.Cart": 100, "add": 4, "other": 1}.__getitem__)
    assert found == Brief("defmodule Shop.Cart do\n  def add(cart, item) do\n", 4, 1)


def test_an_outline_is_more_than_the_name_of_a_namespace() -> None:
    texts = (b"package Cart;\n\nuse strict;\n1;\n", b"package Cart;\n\nsub add { 1 }\n")
    language = kind_of("Cart.pm", b"").outline
    outlines = [cut.outlines for cut in cut_all([(text, language) for text in texts], None)]
    assert outlines == [("",), ("package Cart;\nsub add { 1 }\n",)]
