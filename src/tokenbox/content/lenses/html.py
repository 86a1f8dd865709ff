"""``html_to_text``: a web page as Markdown, by markdownify and Beautiful Soup (extra ``html``)."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tokenbox.content.lenses.lens import LensKind, register
from tokenbox.errors import MissingExtra

if TYPE_CHECKING:
    from tokenbox.content.lenses.lens import Apply

_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*"
    r"<(?:!doctype html|html|head|body|div|p|article|main|table)\b",
    re.IGNORECASE | re.DOTALL,
)
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")
# Elements without content to read.
_REMOVED = ["script", "style", "noscript", "template", "svg", "iframe", "nav", "form", "button"]


def build_html_to_text() -> Apply:
    """Build ``html_to_text``. Raises ``MissingExtra``."""
    if find_spec("markdownify") is None or find_spec("bs4") is None:
        raise MissingExtra.of("the lens html_to_text", "html")
    return lambda text, _: _text_of(text)


def _text_of(page: str) -> str:
    """Convert a page to Markdown. Text that does not begin like a page is returned unchanged."""
    if not _HTML.match(page):
        return page
    from bs4 import BeautifulSoup  # noqa: PLC0415  # an extra
    from markdownify import MarkdownConverter  # noqa: PLC0415  # an extra

    soup = BeautifulSoup(page, "html.parser")
    out = soup.find_all(_REMOVED)
    for element in out:
        element.decompose()
    words = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    words = _BLANK_LINES.sub("\n\n", words).strip()
    parts = [words] if words else []
    if out:
        elements = f"{len(out)} element{'' if len(out) == 1 else 's'}"
        parts.append(f"[... {elements} of navigation, style and script left out ...]")
    result = "\n\n".join(parts) + "\n"
    return page if _HTML.match(result) else result


register(
    LensKind(
        "html_to_text",
        "1",
        build_html_to_text,
        description="a web page as Markdown, without scripts, styles and navigation (extra html)",
        example="html_to_text",
    )
)
