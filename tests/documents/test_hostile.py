"""Whatever a document holds, it reads or is refused with one DocumentError."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tokenbox.documents import FORMATS, DocumentCode, LayoutDocument, parse_document, parse_text
from tokenbox.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).parent / "cases"
TEXTS = [path.read_bytes().decode(errors="replace") for path in sorted(CASES.iterdir()) if path.is_file()]
# What the three formats are made of.
PIECES = st.sampled_from(
    [
        *"{}[]:,\"'\\\n=.#&*!?|>-%@`~ \t\r",
        "sections",
        "id",
        "content",
        "a",
        "1",
        "1e",
        "-",
        "nan",
        "\\u",
        "\\x",
        '"""',
        "'''",
        "<<",
        "---\n",
        "...\n",
        "  ",
        "\x85",
        "\u2028",
        "\ufeff",
        "\ud800",
        "\0",
        "é",
        "[[",
        "]]\n",
        "%YAML 1.2\n",
        "!!",
        "0x",
        "\\U",
    ]
)


def reads_or_is_refused(text: str, suffix: str) -> None:
    error = refusal(lambda: parse_text(text, suffix, base=CASES, name="x"))
    if error is not None:
        assert error.code in list(DocumentCode)
        lines = len(text.splitlines()) + 1  # YAML knows more line breaks than an editor shows
        assert error.line is None or 1 <= error.line <= lines
        str(error).encode()
        assert len(str(error)) < 1000


def refusal(read: Callable[[], LayoutDocument]) -> DocumentError | None:
    try:
        assert isinstance(read(), LayoutDocument)
    except DocumentError as error:
        return error
    return None


@pytest.mark.parametrize("suffix", FORMATS)
@given(text=st.text() | st.lists(PIECES).map("".join))
@example(text='a: "\\UFFFFFFFF"')
@example(text="%YAML 1." + "9" * 5000)
@example(text="a = " + "9" * 5000)
@example(text="a = 1e" + "9" * 50)
@example(text='{"budget": ' + "9" * 5000 + "}")
@example(text='{"budget": 1e' + "9" * 50 + "}")
@example(text="budget: " + "9" * 5000)
@example(text="budget: 1.0e+" + "9" * 50)
@example(text="? " * 5000)
@example(text="sections: [{id: " + "9" * 5000 + "}]")
@example(text="a: *" + "a" * 5000)
@example(text="'" + "a" * 5000 + "': 1")
@example(text='{"' + "a" * 5000 + '": 1, "' + "a" * 5000 + '": 1}')
@example(text="a" * 5000 + " = 1\n" + "a" * 5000 + " = 1")
@example(text="a: &a [&a [*a]]")
@example(text="a: &a [&b [*a, *b]]")
@example(text='"\\ud800": 1')
@example(text='{"\\ud800": 1}')
def test_any_text(suffix: str, text: str) -> None:
    reads_or_is_refused(text, suffix)


@pytest.mark.parametrize("suffix", FORMATS)
@given(text=st.sampled_from(TEXTS), data=st.data())
def test_a_document_with_something_in_it(suffix: str, text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(place, min(len(text), place + 10)))
    piece = data.draw(PIECES)
    reads_or_is_refused(text[:place] + piece + text[end:], suffix)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["id", "content", "sections", "defaults", "extra", "min", "grow"]) | scalars,
            inner,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(anything | st.fixed_dictionaries({"sections": st.lists(anything)}))
def test_any_data(data: object) -> None:
    error = refusal(lambda: parse_document(data, base=CASES))
    assert error is None or error.code in list(DocumentCode)


@pytest.mark.parametrize("depth", [100, 100_000])
def test_a_content_may_be_nested_as_deeply_as_python_writes_it(depth: int) -> None:
    content: list[object] = []
    for _ in range(depth):
        content = [content]
    error = refusal(lambda: parse_document({"sections": [{"id": "a", "content": content}]}, base=CASES))
    assert (error is None) == (depth == 100)
    if error is not None:
        assert str(error) == "at sections[0].content: content has an item that is nested too deeply."


def test_aliases_in_a_content_that_nest_too_deeply() -> None:
    """Each section's list is inside the next one's."""
    inner = "".join(
        f"- {{id: a{i}, content: &a{i} {'[' * 10}{f'*a{i - 1}' if i else 'x'}{']' * 10}}}\n"
        for i in range(200)
    )
    error = refusal(lambda: parse_text(f"sections:\n{inner}", ".yaml", base=CASES, name="x"))
    assert error is not None
    assert error.code == DocumentCode.BAD_VALUE
    assert error.line is not None


@pytest.mark.parametrize("text", ['a = "' + '\\"' * 200_000, 'a = """' + '\n\\"""' * 50_000])
def test_a_string_of_quotes_that_is_not_closed(text: str) -> None:
    """Each quote in it was taken for the beginning of a string: more than an hour for the first."""
    error = refusal(lambda: parse_text(text, ".toml", base=CASES, name="x"))
    assert error is not None
    assert error.code == DocumentCode.SYNTAX


def test_a_wrong_value_under_a_key_that_is_no_text() -> None:
    """Data need not come from a file: its mappings may have any keys."""
    content = {None: {2.5: float("nan")}}
    error = refusal(lambda: parse_document({"sections": [{"id": "a", "content": content}]}, base=CASES))
    assert error is not None
    assert str(error).startswith("at sections[0].content: content has an item that is neither text nor JSON")
