"""The spelling of pipelines, errors that point at the place, and lenses of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenbox import Section, layout
from tokenbox.content.lenses import lens_names, parse_pipeline, register_lens
from tokenbox.content.lenses.lens import KINDS
from tokenbox.errors import DuplicateLens, InvalidText, LensError, LensSyntaxError, UnknownLens
from tokenbox.tokenizers.utf8 import Utf8Bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTES = Utf8Bytes()


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    before = dict(KINDS)
    parse_pipeline.cache_clear()
    yield
    KINDS.clear()
    KINDS.update(before)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("trim", "trim"),
        ("trim()", "trim"),
        (" squeeze\n|>head( 40 , ) ", "squeeze |> head(lines=40)"),
        ("tail(tokens=+3)", "tail(tokens=3)"),
        (r"""replace('"\d"', by="\x41\n")""", r'replace(pattern="\"\\d\"", by="A\n")'),
        (r'replace(by="", pattern="\\.")', r'replace(pattern="\\.", by="")'),
        (r'replace("\u00e9\U0001f600", "\t")', r'replace(pattern="é😀", by="\t")'),
    ],
)
def test_canonical_spelling(text: str, canonical: str) -> None:
    pipeline = parse_pipeline(text)
    assert str(pipeline) == canonical
    assert parse_pipeline(canonical) == pipeline
    assert hash(parse_pipeline(canonical)) == hash(pipeline)


def test_identity_has_the_versions() -> None:
    assert parse_pipeline("squeeze |> head(40)").identity == "squeeze@1 |> head@1(lines=40)"


@given(pattern=st.text(max_size=8), by=st.text(max_size=8))
def test_any_accepted_text_argument_comes_back(pattern: str, by: str) -> None:
    spelled = f"replace({registry_spell(pattern)}, {registry_spell(by)})"
    try:
        pipeline = parse_pipeline(spelled)
    except LensSyntaxError as error:
        # Only the regular expression or the replacement can be at fault, and the place says which.
        assert "replace: " in error.message  # noqa: PT017  # either outcome is right
        return
    assert pipeline.lenses[0].arguments == (("pattern", pattern), ("by", by))
    assert parse_pipeline(str(pipeline)) == pipeline


def registry_spell(text: str) -> str:
    return "'" + "".join(f"\\U{ord(c):08x}" for c in text) + "'"


def test_parsed_once() -> None:
    assert parse_pipeline("trim |> head(3)") is parse_pipeline("trim |> head(3)")


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "expected the name of a lens"),
        ("trim |>", 7, "expected the name of a lens"),
        ("trim trim", 5, "expected '|>'"),
        ("trim | head(3)", 5, "joined by '|>'"),
        ("head", 0, "head(lines) or head(tokens=...)"),
        ("trim |> head(-1)", 13, "from 0 to"),
        ("head('x')", 5, "whole number"),
        ("head(true)", 5, "whole number"),
        ("head(4.5)", 5, "whole number"),
        ("head(1, 2)", 8, "one value too many"),
        ("head(1, tokens=2)", 0, "either lines or tokens"),
        ("head(lines=1, lines=2)", 14, "twice"),
        ("head(lines=1, 2)", 14, "before the named ones"),
        ("head(n=1)", 5, "no argument n"),
        ("head(4", 4, "not closed"),
        ("head(9999999999999999999)", 5, "digits"),
        ("trim(1)", 5, "one value too many"),
        ('replace("a', 8, "no closing quote"),
        ('replace("a(", "b")', 8, "missing )"),
        ('replace("(?=a)", "b")', 8, "invalid perl operator"),
        ('replace("a", "aa")', 13, "never end"),
        ('replace("a", "\\1")', 13, "group 1"),
        ('replace("a", "\\q")', 13, "backslash"),
        ('replace("a")', 0, "by is missing"),
        ('replace("\\UFFFFFFFF", "")', 9, "no character"),
        ("first_sentences()", 0, "n is missing"),
        ("head(lines)", 5, "expected a value"),
        ("head(lines=)", 11, "expected a value"),
        ("trim\u0301", 4, "no meaning"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, words: str) -> None:
    with pytest.raises(LensSyntaxError) as caught:
        parse_pipeline(text)
    error = caught.value
    assert error.details["position"] == position
    assert error.details["pipeline"] == text
    message, *_, line, carets = error.message.splitlines()
    assert words in message
    assert carets.index("^") - 2 == position
    assert line[2:] == text.replace("\u0301", "\ufffd") or "\u0301" in line


def test_the_place_in_a_long_pipeline_of_many_lines() -> None:
    text = "trim\n|> " + "squeeze |> " * 50 + "hed(3)" + " |> trim" * 50 + "\n|> trim"
    with pytest.raises(UnknownLens, match="did you mean 'head'") as caught:
        parse_pipeline(text)
    line, carets = caught.value.message.splitlines()[-2:]
    assert line[carets.index("^") :].startswith("hed(3)")
    assert len(line) < 200
    assert caught.value.details["position"] == text.index("hed")


@given(text=st.text(alphabet="trimhead(),=|>'\"\\ 019-\n", max_size=30))
def test_any_text_parses_or_is_a_lens_error(text: str) -> None:
    try:
        pipeline = parse_pipeline(text)
    except (LensSyntaxError, UnknownLens) as error:
        assert 0 <= error.details["position"] <= len(text)  # type: ignore[operator]  # noqa: PT017
        return
    assert parse_pipeline(str(pipeline)) == pipeline


def test_a_lens_of_ones_own() -> None:
    register_lens("shout", lambda text, mark: text.rstrip(mark) + mark, version="2", arguments={"mark": "!"})
    assert "shout" in lens_names()
    assert str(parse_pipeline("shout")) == 'shout(mark="!")'
    assert parse_pipeline("trim |> shout('?')").apply(" a ", BYTES) == "a?"
    assert parse_pipeline("shout").identity == 'shout@2(mark="!")'


def test_a_lens_that_changes_its_own_result_is_refused() -> None:
    with pytest.raises(LensError, match="changes its own result"):
        register_lens("growing", lambda text: text + "x", version="1")
    with pytest.raises(LensError, match="version"):
        register_lens("numbered", str.strip, version=1)  # type: ignore[arg-type]
    assert not {"growing", "numbered"} & set(lens_names())


def test_a_lens_that_counts() -> None:
    def fits(text: str, tokenizer: Utf8Bytes, most: int) -> str:
        return text if tokenizer.count(text) <= most else ""

    register_lens("fits", fits, version="1", arguments={"most": int}, counts=True)
    assert parse_pipeline("fits(2)").apply("abc", BYTES) == ""
    with pytest.raises(LensSyntaxError, match="most is missing"):
        parse_pipeline("fits")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(DuplicateLens, match="trim"):
        register_lens("trim", str.strip, version="1")
    register_lens("mine", str.strip, version="1")
    with pytest.raises(DuplicateLens, match="version 1"):
        register_lens("mine", str.strip, version="2")


@pytest.mark.parametrize("name", ["", "a b", "true", "1x", "é", "|>"])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(LensError, match="word"):
        register_lens(name, str.strip, version="1")


def test_registration_tries_the_function() -> None:
    calls = iter(range(1000))
    with pytest.raises(LensError, match="two results"):
        register_lens("random", lambda text: f"{text}{next(calls)}", version="1")
    with pytest.raises(LensError, match="returned NoneType"):
        register_lens("nothing", lambda _: None, version="1")  # type: ignore[arg-type, return-value]
    with pytest.raises(LensError, match="IndexError"):
        register_lens("first", lambda text: text[0], version="1")
    assert not {"random", "nothing", "first"} & set(lens_names())


def test_a_failing_lens_is_named() -> None:
    def fragile(text: str) -> str:
        if "bad" in text:
            raise ValueError("cannot")
        return text

    register_lens("fragile", fragile, version="1")
    with pytest.raises(LensError, match="fragile failed on 3 characters: ValueError: cannot"):
        parse_pipeline("fragile").apply("bad", BYTES)


def test_a_registered_lens_returns_what_is_not_text() -> None:
    """The texts of sections are not checked again when a function counts them; what a lens makes is."""
    register_lens("torn", lambda _: "\ud800", version="1")
    with pytest.raises(InvalidText):
        layout([Section("a", "a long text", shrink=1, strategy="torn")], 5, len)
