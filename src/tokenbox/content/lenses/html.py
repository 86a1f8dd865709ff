"""``html_to_text``: a web page as Markdown, by markdownify and Beautiful Soup (extra ``html``)."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lens import LensKind, register
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

    from tokenbox.content.lenses.lens import Apply

# (?!) as a last branch: Python before 3.11.5 keeps what a round of a possessive group read that then failed.
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?>.*?-->)\s*|(?!))*+"
    r"<(?:!doctype html|html|head|body|div|p|article|main|table)\b",
    re.IGNORECASE | re.DOTALL,
)
_PAGE = re.compile(r"<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
# Markdown may begin with an element, as many a README does. Then its lines are no paragraphs of a page.
_MARKDOWN = re.compile(r"^(?:```|~~~|#{1,6} \S|\[!\[)", re.MULTILINE)
# The converter takes quadratic time for a run of white space.
_LONG_BLANK = re.compile(r"\s{256,}")
# Elements that begin a paragraph, which the converter would run together with the text before them.
_BLOCKS = "address aside details fieldset figure footer header hgroup main summary".split()
# Elements without content to read.
_REMOVED = ["script", "style", "noscript", "template", "svg", "iframe", "nav", "form", "button"]
# A form with one of these around its fields is the page (ASP.NET puts all of it into a form).
_WORDS_IN_FORM = ["h1", "h2", "h3", "p", "table", "article", "main", "section", "pre"]
_FIELDS = ["select", "datalist", "textarea"]
# The converter calls itself for each level, and Python limits such calls. Pages have fewer than 60 levels.
_MAX_DEPTH = 120


def build_html_to_text() -> Apply:
    """Build ``html_to_text``. Raises ``MissingExtra``."""
    if find_spec("markdownify") is None or find_spec("bs4") is None:
        raise MissingExtra.of("the lens html_to_text", "html")
    return lambda text, _: _text_of(text)


def _text_of(page: str) -> str:
    """Convert a page to Markdown. Text that is not a page, or nested too deeply, is returned unchanged.

    So is a page whose Markdown would be longer.
    """
    start = _HTML.match(page)
    if not start:
        return page
    if not _PAGE.search(page, 0, start.end()) and "<pre" not in page and _MARKDOWN.search(page):
        return page
    from bs4 import BeautifulSoup  # an extra
    from markdownify import MarkdownConverter  # an extra

    # What begins after the last ">" is no element. The parser would try each "<" to the end of the page.
    last = page.rfind(">") + 1
    source = page[:last] + page[last:].replace("<", "&lt;")
    soup = BeautifulSoup(_LONG_BLANK.sub(lambda run: run[0][:256], source), "html.parser")
    forms = _forms_of_words(soup)
    outer = [form for form in forms if form.find_parent("form") is None]
    fields = [field for form in outer for field in form.find_all(_FIELDS)]
    for form in forms:
        form.name = "div"
    out = [*soup.find_all(_REMOVED), *fields]
    for element in out:
        element.decompose()
    if _depth(soup) > _MAX_DEPTH:
        return page
    for element in soup.find_all(_BLOCKS):
        element.name = "div"
    words = _squeezed(
        MarkdownConverter(heading_style="ATX", bullets="-", sup_symbol="^").convert_soup(soup)
    ).strip()
    parts = [words] if words else []
    if out:
        elements = f"{len(out)} element{'' if len(out) == 1 else 's'}"
        parts.append(f"[... {elements} of navigation, style and script left out ...]")
    result = "\n\n".join(parts) + "\n"
    return page if _HTML.match(result) or len(result) > len(page) else result


def _forms_of_words(soup: BeautifulSoup) -> list[Tag]:
    """Return the forms with words around their fields. Forms may be nested, so each element is seen once."""
    around: set[int] = set()
    for element in soup.find_all(_WORDS_IN_FORM):
        for parent in element.parents:
            if id(parent) in around:
                break
            around.add(id(parent))
    return [form for form in soup.find_all("form") if id(form) in around]


def _squeezed(markdown: str) -> str:
    """Return Markdown with one blank line for each run of them, except in code."""
    kept: list[str] = []
    fenced = blank = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if fenced or line.strip() or not blank:
            kept.append(line if fenced or line.strip() else "")
        blank = not line.strip()
    return "\n".join(kept)


def _depth(soup: BeautifulSoup) -> int:
    """Return the nesting depth of the elements."""
    depth, level = 0, [soup]
    while level:
        level = [inner for element in level for inner in getattr(element, "contents", ())]
        depth += 1
    return depth


register(
    LensKind(
        "html_to_text",
        "5",
        build_html_to_text,
        description="a web page as Markdown, without scripts, styles and navigation (extra html)",
        example="html_to_text",
    )
)
