"""Near-copies count once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tokenbox.folder import PackOptions, pack_source
from tokenbox.worth.copies import counted_once, runs

if TYPE_CHECKING:
    from tests.pack.conftest import Make, Packed

CODE = b"".join(
    b"    total_%d = price(%d) * rate - %d\n    send(total_%d)\n" % (n, n, n, n) for n in range(12)
)
RENAMED = CODE.replace(b"total", b"sum").replace(b"price", b"cost").replace(b"    ", b"\t")
OTHER = b"".join(b"    if line[%d] == %d:\n        break\n" % (n, n * 7) for n in range(12))


def once(texts: list[bytes], worths: list[int]) -> list[int]:
    return counted_once(list(map(runs, texts)), worths)


def test_the_copy_that_is_worth_less_is_worth_little() -> None:
    assert once([CODE, OTHER, CODE], [70, 60, 80]) == [8, 60, 80]
    assert once([CODE, CODE], [80, 80]) == [80, 10]


def test_blanks_and_names_make_no_difference() -> None:
    assert once([RENAMED, CODE], [80, 160]) == [10, 160]


def test_a_part_of_a_piece_is_a_copy_and_a_larger_piece_is_not() -> None:
    assert once([CODE, CODE[: len(CODE) // 2]], [80, 40]) == [80, 5]
    assert once([CODE + OTHER, CODE], [40, 80]) == [40, 80]


def test_short_texts_may_be_alike() -> None:
    assert once([b"import a\nimport b\nimport c\n"] * 3, [8, 8, 8]) == [8, 8, 8]


@given(st.lists(st.tuples(st.sampled_from([CODE, RENAMED, OTHER, b"", b"\xff\n" * 9]), st.integers(0, 99))))
def test_no_text_gains_and_the_best_loses_nothing(pieces: list[tuple[bytes, int]]) -> None:
    texts, worths = [text for text, _ in pieces], [worth for _, worth in pieces]
    found = once(texts, worths)
    assert all(new <= old for new, old in zip(found, worths, strict=True))
    assert max(found, default=0) == max(worths, default=0)


def test_a_copy_takes_no_room_from_what_says_something_new(folder: Make, packed: Packed) -> None:
    tax = "".join(
        f"def tax_{n}(cart):\n" + "".join(f"    cart.tax[{n}, {k}] += {k}\n" for k in range(12)) + "\n\n"
        for n in range(6)
    )
    rest = "".join(f"def other_{n}(cart):\n    return cart.tax.get({n})\n\n\n" for n in range(30))
    source = packed(folder({"a/tax.py": tax, "b/tax.py": tax, "shop/other.py": rest}))
    text = pack_source(source, "utf8-bytes", 4_500, options=PackOptions("tax of a cart")).text
    assert text.count("cart.tax[5, 3] += 3") == 1
    assert "def other_29(" in text
