"""Chat templates as Hugging Face renders them: Jinja in a sandbox, deterministic.

Templates come with models from untrusted sources, so their steps, their output, and what they make and read
are bounded (:mod:`tokenbox.conversation.sandbox`). The date is an argument; there is no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols

from tokenbox.conversation.bounding import CUT, JOIN, MADE, TICK
from tokenbox.conversation.llama.syntax import TemplateError, TemplateTooLarge
from tokenbox.conversation.llama.turns import NotLocal
from tokenbox.conversation.sandbox import ITEM, MAX_CHARACTERS, Sandbox, length, printed, weigh
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    import datetime as dt

    from jinja2.parser import Parser

# Enough for ten thousand messages of a hundred steps each; an endless loop ends within seconds.
MAX_STEPS: Final = 1_000_000
MAX_MADE: Final = 4 * MAX_CHARACTERS  # of all values together; an item of a list is two
MAX_FIXED: Final = 8 * MAX_CHARACTERS  # literal text of the template, as if all branches of a loop were taken
MAX_READ: Final = 16 * MAX_CHARACTERS  # an item that is read takes as long as 64 characters


class _Generation(Extension):
    """The tag ``{% generation %}``, which marks the assistant's text and renders its content."""

    tags = {"generation"}  # noqa: RUF012  # required by Jinja

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled chat template. ``now`` returns the time it may print.

    Raises :class:`TemplateError` if it does not parse.
    """

    sandbox: ClassVar[type[Sandbox]] = Sandbox

    def __init__(self, source: str, *, now: Callable[[], dt.datetime | None] = lambda: None) -> None:
        self.source = source
        self._now = now
        self.environment = self.sandbox(
            self._count,
            self._reads,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=self._output,
        )
        self.environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": self._strftime_now,
            TICK: self._tick,
            JOIN: self._join,
            MADE: self._contains,
            CUT: lambda value: value,  # a call, whose result is counted
        }
        self._begin()
        try:
            self._template = self.environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
            raise TemplateError(f"the chat template does not parse: {error}.") from None

    def _begin(self) -> None:
        self._steps = self._written = self._shown = self._fixed = self._made = self._read = 0

    def render(self, variables: Mapping[str, object]) -> str:
        """Return the prompt. Raises :class:`TemplateError`."""
        return "".join(self.generate(variables))

    def generate(self, variables: Mapping[str, object]) -> Iterator[str]:
        self._begin()
        try:
            # Not Template.generate, which compiles code at each error for the lines of its traceback.
            pieces = self._template.root_render_func(self._template.new_context(dict(variables)))
            yield from map(self._show, pieces)
        except (TokenboxError, NotLocal):
            raise
        except Exception as error:
            raise TemplateError(
                f"the chat template failed on these messages: {type(error).__name__}: {error}."
            ) from error

    @jinja2.pass_context  # disables constant folding, which would bypass the counter
    def _output(self, _: object, value: Any) -> str:  # any value in a template
        text = printed(value)
        self._written = _bounded(self._written + len(text))  # includes the output of macros and blocks
        return text

    def _show(self, text: str) -> str:
        self._shown = _bounded(self._shown + len(text))
        return text

    def _tick(self, fixed: int, steps: int = 1) -> str:
        self._steps += steps
        self._fixed += fixed
        if self._fixed > MAX_FIXED:
            raise TemplateTooLarge("the chat template repeats too much text.")
        if self._steps > MAX_STEPS:
            raise TemplateTooLarge(f"the chat template took more than {MAX_STEPS:,} steps.")
        return ""

    def _count(self, value: Any) -> Any:
        """Return the value, after its size is added to that of all values made."""
        self._made += len(value) if value.__class__ is str else 2 * length(value)
        if self._made > MAX_MADE:
            raise TemplateTooLarge(
                f"the chat template made more than {MAX_MADE:,} characters. Use one that does less."
            )
        return value

    def _contains(self, value: Any) -> Any:
        """Return a list or an object, after the parts of all that are in it are counted, too."""
        parts, _ = weigh(value)
        self._made += 2 * parts
        self._reads(ITEM * parts)
        return self._count(value)

    def _reads(self, characters: int) -> None:
        self._read += characters
        if self._read > MAX_READ:
            raise TemplateTooLarge(
                f"the chat template read more than {MAX_READ:,} characters. Use one that does less."
            )

    def _join(self, *values: object) -> str:
        texts = list(map(printed, values))
        if sum(map(len, texts)) > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("a text is too long")
        return "".join(texts)

    def _strftime_now(self, form: str) -> str:
        now = self._now()
        if now is None:
            raise TemplateError("the chat template prints the date. Give `now`, the time of the request.")
        return now.strftime(form)


def _bounded(characters: int) -> int:
    if characters > MAX_CHARACTERS:
        raise TemplateTooLarge(f"the chat template wrote more than {MAX_CHARACTERS:,} characters.")
    return characters


def _raise_exception(message: object) -> None:
    raise TemplateError(f"the chat template refuses these messages: {message}.")
