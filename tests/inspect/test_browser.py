"""The page in a real browser: what it shows, what it keeps from running, and how fast it opens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tokenbox
from tests.inspect.browser import VARIABLE, messages, opened, run
from tests.inspect.pages import HOSTILE, demo, laid_out, sections
from tests.missing import missing
from tokenbox.inspect import entry_of, page
from tokenbox.inspect.reading import InspectOptions, entries_in

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

SAMPLES = Path(__file__).with_name("samples")
AXE = Path(__file__).parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ("request", "whatif", "steps", "compare", "prompt")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "demo.html"
    path.write_text(page(demo()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def turns_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "turns.html"
    file = SAMPLES / "claude_code.jsonl"
    path.write_text(page(entries_in(str(file), file.read_bytes(), InspectOptions())), encoding="utf-8")
    return path


def click(browser: WebDriver, selector: str) -> None:
    browser.find_element("css selector", selector).click()


def text(browser: WebDriver, selector: str) -> str:
    return str(run(browser, "return document.querySelector(arguments[0]).textContent", selector))


def put(browser: WebDriver, selector: str, value: object) -> None:
    """Set a control as a person does: its value, then the events."""
    script = """
        const [selector, value] = arguments;
        const control = document.querySelector(selector);
        Object.getOwnPropertyDescriptor(Object.getPrototypeOf(control), 'value').set.call(control, value);
        for (const name of ['input', 'change']) control.dispatchEvent(new Event(name, {bubbles: true}));
        return new Promise((done) => setTimeout(done, 0));
    """
    run(browser, script, selector, str(value))


def drawn(browser: WebDriver) -> None:
    """Wait until what was asked for is drawn."""
    run(browser, "return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_view_fits_its_width_and_breaks_no_rule_of_accessibility(
    browser: WebDriver, demo_page: Path, width: int, dark: bool
) -> None:
    if not AXE.is_file():
        missing("axe-core is not installed: make page", VARIABLE)
    opened(browser, demo_page, width, dark=dark)
    run(browser, AXE.read_text(encoding="utf-8"))
    click(browser, "#row-1")
    for view in VIEWS:
        click(browser, f"#tab-{view}")
        drawn(browser)
        found = run(browser, "return axe.run(document).then((found) => found.violations)")
        told = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]
        assert told == [], f"{view} at {width}"
        assert run(browser, "return document.documentElement.scrollWidth") <= width, view
    assert messages(browser) == []


def test_the_turns_break_no_rule_of_accessibility(browser: WebDriver, turns_page: Path) -> None:
    if not AXE.is_file():
        missing("axe-core is not installed: make page", VARIABLE)
    for width in (1280, 390):
        opened(browser, turns_page, width)
        run(browser, AXE.read_text(encoding="utf-8"))
        click(browser, "#tab-turns")
        drawn(browser)
        found = run(browser, "return axe.run(document).then((found) => found.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert run(browser, "return document.documentElement.scrollWidth") <= width


def test_the_theme_is_the_systems_and_can_be_chosen(browser: WebDriver, demo_page: Path) -> None:
    paper = "return getComputedStyle(document.documentElement).backgroundColor"
    opened(browser, demo_page)
    light = run(browser, paper)
    opened(browser, demo_page, dark=True)
    dark = run(browser, paper)
    assert light != dark
    click(browser, ".theme")
    assert (text(browser, ".theme"), run(browser, paper)) == ("Theme: light", light)
    click(browser, ".theme")
    assert (text(browser, ".theme"), run(browser, paper)) == ("Theme: dark", dark)


def test_a_text_that_looks_like_markup_is_text(browser: WebDriver, demo_page: Path) -> None:
    opened(browser, demo_page)
    run(browser, "document.querySelector('#row-4').scrollIntoView()")
    click(browser, "#row-4")
    drawn(browser)
    click(browser, ".choice button:last-of-type")
    drawn(browser)
    shown = text(browser, ".card .text")
    assert shown == (HOSTILE * 3)
    assert run(browser, "return [window.owned === undefined, document.querySelectorAll('img').length]") == [
        True,
        0,
    ]
    assert "owned" not in browser.title
    assert run(browser, "return document.querySelectorAll('script').length") == 2
    assert messages(browser) == []


def test_the_page_may_run_nothing_else_and_ask_for_nothing(browser: WebDriver, demo_page: Path) -> None:
    """What if a text did become markup: the policy of the page stops it."""
    opened(browser, demo_page)
    script = """
        const script = document.createElement('script');
        try { script.textContent = 'window.owned = 1'; } catch (refused) {}
        document.body.append(script);
        const frame = document.createElement('iframe');
        frame.src = 'https://example.invalid/';
        document.body.append(frame);
        const told = () => window.owned === undefined ? 'refused' : 'ran';
        return fetch('https://example.invalid/').then(() => 'asked', told);
    """
    assert run(browser, script) == "refused"
    assert any("Content Security Policy" in said for said in messages(browser))


@pytest.mark.parametrize("budget", [60, 61, 150, 199, 200, 333, 400, 512, 600])
def test_the_slider_shows_the_very_layout_of_a_budget(
    browser: WebDriver, demo_page: Path, budget: int
) -> None:
    opened(browser, demo_page)
    click(browser, "#tab-whatif")
    put(browser, "#view input[type=number]", budget)
    drawn(browser)
    said = text(browser, ".control p")
    shown = run(
        browser,
        """return [...document.querySelectorAll('#view .rows .row')].map((row) =>
             [row.querySelector('bdi').textContent, row.querySelector('.chip').textContent,
              row.querySelector('.figures').lastChild.textContent.replaceAll(',', '')])""",
    )
    expected = tokenbox.layout(sections(), budget, "o200k_base", policy="degrade")
    named = [one.id.replace("\u202e", "\\u202e") for one in expected.sections]  # a name shows its controls
    assert shown == [
        [name, one.decision.value, str(one.size)] for name, one in zip(named, expected.sections, strict=True)
    ]
    assert said.startswith(f"{expected.total:,} of {budget:,} tokens, {budget - expected.total:,} free")
    assert "Laid out, not interpolated." in said


def test_a_budget_that_is_too_small_says_why(browser: WebDriver, demo_page: Path) -> None:
    opened(browser, demo_page)
    click(browser, "#tab-whatif")
    put(browser, "#view input[type=number]", 0)
    drawn(browser)
    assert "critical sections" in text(browser, ".refused")


def test_the_first_changed_byte_is_marked(browser: WebDriver, demo_page: Path) -> None:
    opened(browser, demo_page)
    click(browser, "#tab-compare")
    drawn(browser)
    put(
        browser,
        ".pair label:last-of-type select",
        run(
            browser,
            """
        const options = [...document.querySelectorAll('.pair label:last-of-type option')];
        return options.findIndex((option) => option.textContent === 'smaller.toml')""",
        ),
    )
    drawn(browser)
    one, other = (laid_out(budget).text.encode() for budget in (400, 200))
    byte = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    assert text(browser, ".panel p b") == f"{byte:,}"
    left, right = run(browser, "return [...document.querySelectorAll('mark')].map((m) => m.textContent)")
    assert left != right
    assert one[byte:].decode(errors="replace").startswith(left)
    assert other[byte:].decode(errors="replace").startswith(right)


def test_token_boundaries_are_those_of_the_tokenizer(browser: WebDriver, demo_page: Path) -> None:
    opened(browser, demo_page)
    click(browser, "#tab-prompt")
    layout = laid_out()
    assert text(browser, "#view > .text") == layout.text
    click(browser, ".check input")
    drawn(browser)
    tokens = tokenbox.tokenizers.get("o200k_base").encode(layout.text)
    shown = run(browser, "return [...document.querySelectorAll('.token')].map((token) => token.textContent)")
    assert len(shown) == len(tokens) == layout.total
    assert "".join(piece for piece in shown if piece != "·") == layout.text


def test_everything_works_by_keyboard(browser: WebDriver, demo_page: Path) -> None:
    from selenium.webdriver.common.keys import Keys  # where there is a browser

    opened(browser, demo_page)
    focused = "return document.activeElement.id"
    run(browser, "document.querySelector('#tab-request').focus()")
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert run(browser, focused) == "tab-whatif"
    browser.switch_to.active_element.send_keys(Keys.END)
    assert run(browser, focused) == "tab-prompt"
    browser.switch_to.active_element.send_keys(Keys.HOME)
    run(browser, "document.querySelector('.rows .list').focus()")
    for _ in range(2):
        browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert text(browser, ".card h2") == "history"
    browser.switch_to.active_element.send_keys(Keys.END)
    assert text(browser, ".card h2") == "question"
    click(browser, "#tab-whatif")
    run(browser, "document.querySelector('#budget').focus()")
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    drawn(browser)
    assert " of 399 tokens" in text(browser, ".control p")


def test_steps_can_be_gone_through(browser: WebDriver, demo_page: Path) -> None:
    opened(browser, demo_page)
    click(browser, "#tab-steps")
    layout = laid_out()
    put(browser, "#step", 0)
    drawn(browser)
    assert "every section whole" in text(browser, ".control p")
    whole = sum(layout.base_sizes)
    assert text(browser, "figcaption").startswith(f"{whole:,} tokens")
    put(browser, "#step", 1)
    drawn(browser)
    step = layout.log[0]
    assert f"{step.before:,} → {step.after:,}" in text(browser, ".control p")
    assert text(browser, ".card h2") == layout.inputs[step.section].id


def test_turns_show_tokens_cache_and_cost(browser: WebDriver, turns_page: Path) -> None:
    opened(browser, turns_page)
    click(browser, "#tab-turns")
    rows = run(
        browser,
        "return [...document.querySelectorAll('.turns .row')].map((row) => row.innerText.split('\\n'))",
    )
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    assert "14,972" in " ".join(rows[1])
    assert "14,200 cached" in " ".join(rows[1])
    assert "$0.009396" in " ".join(rows[1])
    put(browser, "#turn", 1)
    drawn(browser)
    assert "14,200 tokens came from the prompt cache" in text(browser, "figcaption")
    chips = run(
        browser, "return [...document.querySelectorAll('.rows .chip')].map((chip) => chip.textContent)"
    )
    assert "evicted" not in chips
    put(browser, "#turn", 3)
    drawn(browser)
    chips = run(
        browser, "return [...document.querySelectorAll('.rows .chip')].map((chip) => chip.textContent)"
    )
    assert "evicted" in chips
    legends = run(
        browser, "return [...document.querySelectorAll('.legend li')].map((item) => item.textContent)"
    )
    assert any(legend.startswith("evicted ") for legend in legends)  # as the list says, not "dropped"


def test_of_a_thousand_sections_only_those_in_sight_are_drawn(browser: WebDriver, tmp_path: Path) -> None:
    many = [
        {"id": f"part-{i}", "content": f"{i} " + "word and another word, " * 90, "shrink": 1, "priority": i}
        for i in range(1000)
    ]
    made = tokenbox.layout(many, 300_000, "utf8-bytes")
    path = tmp_path / "many.html"
    path.write_text(page([entry_of(made, "many")]), encoding="utf-8")
    assert path.stat().st_size > 2_000_000
    opened(browser, path)
    drawn(browser)
    assert run(browser, "return document.querySelectorAll('.row').length") < 60
    run(browser, "document.querySelector('.rows .list').scrollTop = 20000")
    drawn(browser)
    assert run(browser, "return Number(document.querySelector('.row').id.slice(4))") > 400
    assert run(browser, "return document.querySelectorAll('.row').length") < 60


def test_megabytes_in_one_section_do_not_stop_the_page(browser: WebDriver, tmp_path: Path) -> None:
    large: list[dict[str, Any]] = [{"id": "large", "content": "x" * 3_000_000, "shrink": 1}]
    made = tokenbox.layout(large, 2_000_000, "utf8-bytes")
    path = tmp_path / "large.html"
    path.write_text(page([entry_of(made, "large")]), encoding="utf-8")
    opened(browser, path)
    click(browser, "#row-0")
    drawn(browser)
    assert run(browser, "return document.querySelector('.card .text').textContent.length") < 200_000
    assert "1,000,000 characters left out" in text(browser, ".choice")
