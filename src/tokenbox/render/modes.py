"""The modes by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenbox.render.markdown import MARKDOWN
from tokenbox.render.minimal import MINIMAL
from tokenbox.render.templates import Mode
from tokenbox.render.xml import XML

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenbox.render.markup import Markup

MARKUPS: Mapping[Mode, Markup] = {Mode.XML: XML, Mode.MARKDOWN: MARKDOWN, Mode.MINIMAL: MINIMAL}
