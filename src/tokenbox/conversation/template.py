"""Chat templates in the way of Hugging Face: Jinja in a sandbox, the same prompt for the same input, always.

A template comes with a model from strangers, so it can neither reach anything nor run or write without end.
The date is an argument; there is no clock.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator, Mapping

    from jinja2.parser import Parser

# Ten thousand messages of a hundred steps each pass; a template that does nothing but loop ends in seconds.
MAX_STEPS: Final = 1_000_000
MAX_CHARACTERS: Final = 64 * 1024 * 1024
_TICK: Final = "tokenbox_tick"
_JOIN: Final = "tokenbox_join"
# Widths and exponents beyond these make texts and numbers that no prompt has.
_MAX_WIDTH: Final = 10_000
_MAX_EXPONENT: Final = 64
_WIDE: Final = re.compile(r"\d{5,}|\*")


class TemplateError(TokenboxError):
    """A chat template cannot be used, or refuses these messages. The message has the template's own words."""

    code = "chat_template_error"


class _Refused(Exception):
    """The template called ``raise_exception``."""


class _Generation(Extension):
    """``{% generation %}``, which marks what the assistant wrote, and prints what is in it."""

    tags = {"generation"}  # noqa: RUF012  # as Jinja asks for it

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Bounding(NodeTransformer):
    """Every turn of a loop and every call of a macro is counted, every ``~`` bounded."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  # as Jinja calls it
        node.body.insert(0, self._tick(node.lineno))
        return self.generic_visit(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        node.body.insert(0, self._tick(node.lineno))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        joined = nodes.Call(nodes.Name(_JOIN, "load"), node.nodes, [], None, None, lineno=node.lineno)
        return self.generic_visit(joined.set_environment(self._environment))

    def _tick(self, line: int) -> nodes.Node:
        call = nodes.Call(nodes.Name(_TICK, "load"), [], [], None, None)
        return nodes.ExprStmt(call, lineno=line).set_environment(self._environment)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, in which no single step makes something huge."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template: nodes.Template = _Bounding(self).visit(super()._parse(source, name, filename))
        return template

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        bounded = _BOUNDS[operator](left, right)
        if not bounded:
            raise jinja2.TemplateRuntimeError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        # 'a'.center(10**9) and its like. The sandbox itself bounds range().
        if isinstance(getattr(obj, "__self__", None), str) and not _narrow(*args, *kwargs.values()):
            raise jinja2.TemplateRuntimeError("a width is too large")
        return super().call(context, obj, *args, **kwargs)


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _narrow(*values: object) -> bool:
    return not any(isinstance(value, int) and abs(value) > _MAX_WIDTH for value in values)


_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "+": lambda left, right: _length(left) + _length(right) <= MAX_CHARACTERS,
    "*": lambda left, right: (
        not (
            (isinstance(right, int) and _length(left) * right > MAX_CHARACTERS)
            or (isinstance(left, int) and _length(right) * left > MAX_CHARACTERS)
        )
    ),
    "**": lambda _, right: isinstance(right, int | float) and right <= _MAX_EXPONENT,
    "%": lambda left, _: not isinstance(left, str) or not _WIDE.search(left),
}


class ChatTemplate:
    """A compiled chat template. ``now`` is the time it may print; ``dump`` its filter ``tojson``.

    ``lenient``: something that is not there has no parts, rather than being an error (as in llama.cpp).
    Raises :class:`TemplateError` if it does not parse.
    """

    def __init__(
        self,
        source: str,
        *,
        now: dt.datetime | None = None,
        dump: Callable[..., str] | None = None,
        lenient: bool = False,
    ) -> None:
        self.source = source
        self._now = now
        self._environment = _Environment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            undefined=jinja2.ChainableUndefined if lenient else jinja2.Undefined,
        )
        self._environment.filters["tojson"] = dump or to_json
        for name in ("center", "indent", "format"):
            self._environment.filters[name] = _bounded_filter(name)
        self._environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": self._strftime_now,
            _TICK: self._tick,
            _JOIN: self._join,
        }
        self._steps = 0
        try:
            self._template = self._environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
            raise TemplateError(f"the chat template does not parse: {error}.") from None

    def render(self, variables: Mapping[str, object]) -> str:
        """The prompt. Raises :class:`TemplateError`."""
        self._steps = 0
        try:
            return "".join(_bounded(self._template.generate(**variables)))
        except _Refused as refused:
            raise TemplateError(f"the chat template refuses these messages: {refused}.") from None
        except TokenboxError:
            raise
        except Exception as error:
            raise TemplateError(
                f"the chat template failed on these messages: {type(error).__name__}: {error}."
            ) from error

    def _tick(self) -> str:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TemplateError(f"the chat template took more than {MAX_STEPS:,} steps.")
        return ""

    def _join(self, *values: object) -> str:
        texts = list(map(str, values))
        if sum(map(len, texts)) > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("a text is too long")
        return "".join(texts)

    def _strftime_now(self, form: str) -> str:
        if self._now is None:
            raise TemplateError("the chat template prints the date. Give `now`, the time of the request.")
        return self._now.strftime(form)


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_CHARACTERS:
            raise TemplateError(f"the chat template wrote more than {MAX_CHARACTERS:,} characters.")
        yield piece


def _bounded_filter(name: str) -> Callable[..., Any]:
    """Jinja's own filter, without huge widths."""
    own = FILTERS[name]

    def bounded(value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as the filter has it
        if not _narrow(*args, *kwargs.values()) or (name == "format" and _WIDE.search(str(value))):
            raise jinja2.TemplateRuntimeError(f"a width of {name} is too large")
        return own(value, *args, **kwargs)

    return bounded


def _raise_exception(message: object) -> None:
    raise _Refused(message)


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # as templates call it
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """The filter ``tojson`` of Hugging Face: plain JSON, nothing escaped for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
