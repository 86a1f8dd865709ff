"""What a notebook and a prompt show of a result: small, without a program, and every text as text."""

from __future__ import annotations

import base64
import json
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.inspect.pages import laid_out
from tests.inspect.test_entries import GOLDEN, few, messages
from tokenbox import ctx
from tokenbox.content.block_kinds import FormatHint
from tokenbox.content.blocks import DocumentBlock
from tokenbox.errors import LayoutError
from tokenbox.inspect import page, picture, record_of, slider
from tokenbox.inspect.of_layout import layout_entry
from tokenbox.inspect.page import WIDGET, asset, static
from tokenbox.inspect.reading import InspectOptions, entries_in

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

MOST_BYTES = 24_000


def conversation() -> tokenbox.Conversation:
    found = tokenbox.Conversation(count="o200k_base", system="Be brief.", token_budget=400)
    found.extend(messages()[1:])
    return found


def shown() -> dict[str, tuple[Any, str]]:
    """Each kind of result, and what its ``repr`` says."""
    notes = DocumentBlock("notes", b"word " * 300, FormatHint.MARKDOWN)
    chunks: Any = few()
    return {
        "Layout": (
            laid_out(),
            "<Layout: 400 of 400 tokens (o200k_base); 4 kept, 1 truncated, 1 dropped>",
        ),
        "BlockLayout": (
            tokenbox.render_blocks([notes], "o200k_base", 40),
            "<BlockLayout: 21 of 40 tokens (o200k_base); 1 placeholder>",
        ),
        "PackedFolder": (tokenbox.pack(__file__, 300, tokenizer="o200k_base"), "<PackedFolder: "),
        "Fitted": (
            tokenbox.fit(messages(), 260, model="gpt-4o"),
            "<Fitted: ~260 of 260 tokens (o200k_base openai); 1 kept, 1 reduced>",
        ),
        "PackPlan": (
            ctx.pack(chunks, 300, 100, tokenizer="o200k_base"),
            "<PackPlan: 200 of 200 tokens (o200k_base); 2 kept, 1 truncated, 1 dropped>",
        ),
        "Enforcement": (
            ctx.enforce("gpt-4o", chunks, max_tokens_request=100, max_ctx=300, tokenizer="o200k_base"),
            "<Enforcement: refused; ",
        ),
        "Conversation": (conversation(), "<Conversation: ~"),
    }


KINDS = ("Layout", "BlockLayout", "PackedFolder", "Fitted", "PackPlan", "Enforcement", "Conversation")


class Tags(HTMLParser):
    """Whether every element is closed, which elements there are, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_says_what_came_out(kind: str) -> None:
    value, expected = shown()[kind]
    if kind in ("Enforcement", "Conversation", "PackedFolder"):
        assert repr(value).startswith(expected)
    else:
        assert repr(value) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_a_small_picture_without_a_program(kind: str) -> None:
    value, _ = shown()[kind]
    html = value._repr_html_()
    tags = Tags(html)
    assert tags.open == []
    assert not tags.names & {"script", "style", "link", "img", "iframe"}
    assert "http" not in html
    assert len(html.encode()) < MOST_BYTES
    total = value.tokens_in if kind == "Enforcement" else getattr(value, "total", None)
    assert f"{total if total is not None else value.estimate_tokens():,}" in tags.text


def test_a_text_that_looks_like_markup_is_text_there_too() -> None:
    html = laid_out()._repr_html_()
    assert "<script" not in html
    assert "a<script>alert(1)</script>\\u202e.md" in Tags(html).text


def test_an_estimate_is_marked() -> None:
    made = tokenbox.layout([{"id": "a", "content": "some words"}], 10, "chars4")
    assert repr(made) == "<Layout: ~2 of 10 tokens (chars4); 1 kept>"
    assert "~2 of 10 tokens" in Tags(made._repr_html_()).text


def test_a_thousand_sections_are_a_small_picture_too() -> None:
    many = [{"id": f"part-{i}", "content": "x" * (i % 9), "shrink": 1, "priority": i} for i in range(1000)]
    html = tokenbox.layout(many, 3_000, "utf8-bytes")._repr_html_()
    assert len(html.encode()) < 3 * MOST_BYTES
    assert "and 960 more" in html


def test_a_conversation_that_cannot_be_counted_still_has_a_repr() -> None:
    def fails(text: str) -> int:
        raise ValueError(text)

    found = tokenbox.Conversation(count=fails)
    found.user("hello")
    assert repr(found).startswith("<Conversation: 1 message, not counted: ")
    assert Tags(found._repr_html_()).names == {"pre"}


@pytest.mark.slow
def test_the_page_without_scripts_shows_the_same_picture() -> None:
    made = laid_out()
    drawn = made._repr_html_()
    assert drawn == picture(made) == static(layout_entry(made, "layout"))
    assert drawn in page([layout_entry(made, "layout")])
    refused = ctx.enforce("gpt-4o", few(), max_tokens_request=100, max_ctx=300, tokenizer="o200k_base")
    assert f"{refused.tokens_in:,} of 200 tokens" in Tags(picture(refused)).text  # not what would fit


def test_every_kind_of_file_has_a_picture() -> None:
    files = [*Path(__file__).with_name("samples").iterdir(), *(GOLDEN / "proof").glob("*.tar")]
    for file in files:
        for entry in entries_in(str(file), file.read_bytes(), InspectOptions()):
            tags = Tags(static(entry))
            assert tags.open == []
            total = entry.frames[-1].total
            assert total is None or f"{total:,}" in tags.text


# The slider.


def test_the_slider_has_the_record_of_the_page_and_the_budget_that_is_chosen() -> None:
    made = laid_out()
    widget = slider(made, stops=40)
    assert json.loads(widget.record) == json.loads(
        json.dumps(record_of([layout_entry(made, "layout", stops=40)]))
    )
    assert widget.budget == 400


def test_a_layout_without_its_tokenizer_has_no_slider() -> None:
    with pytest.raises(LayoutError, match="has no tokenizer"):
        slider(pickle.loads(pickle.dumps(tokenbox.layout([{"id": "a", "content": "x"}], 9, "utf8-bytes"))))


DRAW = """
    const [source, record] = arguments;
    const set = {};
    const model = {get: () => record, set: (name, value) => { set[name] = value; }, save_changes: () => {}};
    const el = document.createElement('div');
    document.body.append(el);
    return import(`data:text/javascript;base64,${source}`).then((widget) => {
        widget.default.render({model, el});
        return new Promise((done) => setTimeout(done, 50));
    }).then(() => {
        const slide = el.shadowRoot.querySelector('#budget');
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(slide, 200);
        slide.dispatchEvent(new Event('input', {bubbles: true}));
        return new Promise((done) => setTimeout(done, 50));
    }).then(() => [el.shadowRoot.querySelector('.control p').textContent, set.budget]);
"""


@pytest.mark.slow
def test_the_slider_draws_and_tells_the_budget(browser: WebDriver) -> None:
    widget = slider(laid_out(), stops=300)
    browser.get("about:blank")
    source = base64.b64encode(asset(WIDGET).encode()).decode()
    said, budget = browser.execute_script(DRAW, source, widget.record)
    assert said.startswith(f"{laid_out(200).total:,} of 200 tokens")
    assert budget == 200
