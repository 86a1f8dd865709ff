"""The page as a file: how large, what it may do, and that no text in it is more than a text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenbox
from tests.inspect.pages import HOSTILE, demo, laid_out
from tokenbox.inspect import PageTooLarge, entry_of, page, record_of
from tokenbox.inspect.of_layout import layout_entry
from tokenbox.inspect.page import SCRIPT, STYLE, asset
from tokenbox.inspect.record import (
    MAX_ITEMS,
    PageEntry,
    PageFrame,
    PageItem,
    PageState,
    packed_lengths,
    safe_json,
    utf16,
)

MOST_BYTES = 150 * 1024


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts and styles, as a parser of HTML sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts and self.lasttag == self._open:
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def named(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (found[1], text) for found, text in zip(self.tags, self.texts, strict=True) if found[0] == tag
        ]


def test_the_empty_page_is_small_and_has_no_address() -> None:
    empty = page([])
    assert len(empty.encode()) <= MOST_BYTES
    assert re.findall(r"(?:https?:)?//[\w.]+\.\w", empty) == []


def test_the_page_is_one_file_with_two_scripts_and_asks_for_nothing() -> None:
    elements = Elements(page(demo()))
    loads = [(tag, attrs) for tag, attrs in elements.tags if {"src", "srcset", "action"} & attrs.keys()]
    assert loads == []
    assert [attrs["href"] for tag, attrs in elements.tags if "href" in attrs] == ["data:,"]
    scripts = elements.named("script")
    assert [attrs.get("type") for attrs, _ in scripts] == ["application/json", None]


def test_the_policy_names_the_program_and_the_style_by_their_digests() -> None:
    elements = Elements(page(demo()))
    policy = next(a["content"] for t, a in elements.tags if t == "meta" and "http-equiv" in a) or ""
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        text = elements.named(element)[-1][1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_the_record_in_the_page_is_the_record_whatever_the_texts_say() -> None:
    entries = demo()
    ((_, data),) = [found for found in Elements(page(entries)).named("script") if found[0]]
    assert json.loads(data) == json.loads(json.dumps(record_of(entries)))
    assert "<" not in data
    assert HOSTILE * 3 in json.loads(data)["texts"]


@given(st.text(st.characters(), max_size=60))
def test_no_text_ends_the_element_it_is_in(text: str) -> None:
    """Lone surrogates too: a log may hold them, and they have no place in UTF-8."""
    safe = safe_json([text])
    assert not set("<>&\u2028\u2029") & set(safe)
    safe.encode()
    assert json.loads(safe) == [text]


def test_the_same_input_gives_the_same_bytes() -> None:
    one, other = (page([layout_entry(laid_out(), "prompt", stops=40)]) for _ in range(2))
    assert one == other


@pytest.mark.slow
def test_a_title_is_a_text() -> None:
    html = page([entry_of(laid_out(), "</title><script>x</script>\ud800")])
    assert "<title>&lt;/title&gt;" in html
    html.encode()


def test_a_million_sections_are_refused_with_a_way_out() -> None:
    many = [{"id": str(i), "content": ""} for i in range(MAX_ITEMS + 1)]
    made = tokenbox.layout(many, 10, "utf8-bytes")
    with pytest.raises(PageTooLarge, match="at most 50,000") as refused:
        entry_of(made)
    assert refused.value.details == {"items": MAX_ITEMS + 1, "limit": MAX_ITEMS}


def test_more_text_than_a_page_holds_is_refused() -> None:
    items = tuple(PageItem(str(i), "section", str(i) + "x" * (16 << 20), 1) for i in range(4))
    with pytest.raises(PageTooLarge, match="67,108,864 characters"):
        record_of([PageEntry("large", "layout", items, ())])


# Texts that are cut are named by their place in the whole text.


def restored(record: dict[str, Any], ref: object) -> str:
    """A text of a record, as the page restores it: places are in UTF-16 units."""
    texts: list[str] = record["texts"]
    if isinstance(ref, int):
        return texts[ref]
    assert isinstance(ref, list)
    return "".join(
        texts[piece]
        if isinstance(piece, int)
        else texts[piece[0]]
        .encode("utf-16-le", "surrogatepass")[2 * piece[1] : 2 * piece[2]]
        .decode("utf-16-le", "surrogatepass")
        for piece in ref
    )


CHARACTERS = st.text(st.sampled_from("ab\n é日👩\U0001f469\u202e"), max_size=40)


@given(CHARACTERS, st.integers(0, 40), st.integers(0, 40), st.text("[.]é👩", max_size=4))
def test_a_cut_text_comes_back_as_it_was(whole: str, head: int, tail: int, marker: str) -> None:
    text = whole[:head] + marker + whole[max(head, len(whole) - tail) :]
    item = PageItem("a", "section", whole, 1)
    frame = PageFrame(1, 1, True, (PageState(0, "truncated", 1, text),))
    record: Any = record_of([PageEntry("t", "layout", (item,), (frame,))])
    ref = record["entries"][0]["frames"][0]["changes"][0][3]
    assert restored(record, ref) == text


@pytest.mark.slow
def test_a_text_is_written_once_however_often_it_is_cut() -> None:
    whole = "word and another word, " * 2_000
    layouts = [
        tokenbox.layout([{"id": "a", "content": whole, "shrink": 1}], budget, "utf8-bytes")
        for budget in range(40_000, 40_050)
    ]
    record: Any = record_of([layout_entry(made, "", stops=0) for made in layouts])
    assert record["texts"] == [whole]


@given(st.lists(st.integers(0, 400)))
def test_packed_lengths_can_be_unpacked(lengths: list[int]) -> None:
    found, length = [], 0
    for character in packed_lengths(lengths):  # as the page does
        if character == "~":
            length += 80
        else:
            found.append(length + ord(character) - 35)
            length = 0
    assert found == lengths


@given(st.text(st.characters(), max_size=20))
def test_lengths_are_those_of_a_browser(text: str) -> None:
    assert utf16(text) == sum(1 + (ord(character) > 0xFFFF) for character in text)


def test_the_built_files_say_whose_they_are() -> None:
    assert "Apache-2.0" in asset(SCRIPT)[:200]
    assert asset(STYLE).startswith(":root")
