"""Chat templates as Hugging Face renders them: Jinja in a sandbox, deterministic.

Templates come with models from untrusted sources, so the sandbox gives no access to the system and bounds
steps and output. The date is an argument; there is no clock.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, ClassVar, Final

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.turns import NotLocal
from tokenbox.errors import TokenboxError

if TYPE_CHECKING:
    import datetime as dt

    from jinja2.parser import Parser

# Enough for ten thousand messages of a hundred steps each; an endless loop ends within seconds.
MAX_STEPS: Final = 1_000_000
MAX_CHARACTERS: Final = 64 * 1024 * 1024
MAX_MADE: Final = 4 * MAX_CHARACTERS  # of all values together; an item of a list is two
MAX_FIXED: Final = 8 * MAX_CHARACTERS  # literal text of the template, as if all branches of a loop were taken
MAX_PARTS: Final = 1_000_000  # of a list, recursively, counting repeated references each time
_TICK: Final = "tokenbox_tick"
_JOIN: Final = "tokenbox_join"
_MADE: Final = "tokenbox_made"
_CUT: Final = "tokenbox_cut"
# Larger widths and exponents give texts and numbers that no prompt contains.
_MAX_WIDTH: Final = 10_000
_MAX_EXPONENT: Final = 64
_MAX_BITS: Final = 4096
_WIDE: Final = re.compile(r"\d{5,}|\*|\{[^{}]*\{")
# Methods of texts that no chat template needs, and whose output is not bounded by their arguments.
_REFUSED_METHODS: Final = frozenset({"encode", "expandtabs", "translate"})
# Filters whose output may be much larger than their input, and filters that traverse their entire input.
_WIDTH_FILTERS: Final = ("center", "indent", "format", "slice", "batch", "truncate", "wordwrap", "round")
_TRAVERSING_FILTERS: Final = (
    "join", "sum", "string", "pprint", "tojson", "escape", "e", "forceescape", "replace", "xmlattr",
)  # fmt: skip


class _Generation(Extension):
    """The tag ``{% generation %}``, which marks the assistant's text and renders its content."""

    tags = {"generation"}  # noqa: RUF012  # required by Jinja

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Bounding(NodeTransformer):
    """A transformer that adds a step counter to loops and macros, and bounds to ``~``, lists and slices."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # as Jinja calls it
        idle = _idle(node)
        node.body.insert(0, self._tick(node))
        if idle is not None:
            node.body.insert(0, nodes.If(idle, [nodes.Break()], [], [], lineno=node.lineno))
        return self.generic_visit(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        node.body.insert(0, self._tick(node))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        return self.generic_visit(self._call(_JOIN, node.nodes, node))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return self._call(_CUT, [node], node) if isinstance(node.arg, nodes.Slice) else node

    def _made(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        is_constant = all(isinstance(child, nodes.Const) for child in node.iter_child_nodes())
        if is_constant or getattr(node, "ctx", "load") != "load":
            return node
        return self._call(_MADE, [node], node)

    visit_List = visit_Tuple = visit_Dict = _made  # noqa: N815  # as Jinja calls them

    def _tick(self, node: nodes.Node) -> nodes.Node:
        fixed = sum(len(text.data) for text in node.find_all(nodes.TemplateData))
        call = self._call(_TICK, [nodes.Const(fixed)], node)
        return nodes.ExprStmt(call, lineno=node.lineno).set_environment(self._environment)

    def _call(self, name: str, args: list[nodes.Expr], node: nodes.Node) -> nodes.Node:
        call = nodes.Call(nodes.Name(name, "load"), args, [], None, None, lineno=node.lineno)
        return call.set_environment(self._environment)


def _idle(loop: nodes.For) -> nodes.Node | None:
    """Return a test that is true once no further turn of a loop can have an effect; None if unknown.

    See ``_idle`` in :mod:`tokenbox.conversation.llama.compiler`. A jump would execute the ``else`` of a loop.
    """
    body = loop.body
    if len(body) != 1 or not isinstance(body[0], nodes.If) or loop.else_:
        return None
    test, parts = body[0].test, _walk(body[0].test)
    changing = {"loop", *(part.name for part in _walk(loop.target) if isinstance(part, nodes.Name))}
    if not all(isinstance(part, _UNCHANGING) for part in parts):
        return None
    if any(isinstance(part, nodes.Name) and part.name in changing for part in parts):
        return None
    if not body[0].elif_ and not body[0].else_:
        return nodes.Not(test)
    return None if body[0].body else test


def _walk(node: nodes.Node) -> list[nodes.Node]:
    return [node, *node.find_all(nodes.Node)]


# Expressions of these have the same value until a statement is executed.
_UNCHANGING: Final = (
    nodes.Name, nodes.Getattr, nodes.Const, nodes.Not, nodes.And, nodes.Or, nodes.Compare, nodes.Operand,
)  # fmt: skip


class Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which no operation creates a huge value. ``made`` counts what all of them create."""

    made: Callable[[Any], Any]
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = self.rewritten(super()._parse(source, name, filename))
        template: nodes.Template = _Bounding(self).visit(parsed)
        return template

    def rewritten(self, template: nodes.Template) -> nodes.Template:
        """Return the template as it is compiled."""
        return template

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%":
            if isinstance(left, str):
                _check_format(left, "%", right)
        elif not _BOUNDS[operator](left, right):
            raise jinja2.TemplateRuntimeError(f"the result of {operator} is too large")
        return self.made(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        refused = isinstance(obj, str) and attr in _REFUSED_METHODS
        return not refused and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Methods such as 'a'.center(10**9). The sandbox itself bounds range().
        text = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(text, str):
            if not _narrow(*args, *kwargs.values()):
                raise jinja2.TemplateRuntimeError("a width is too large")
            name = getattr(obj, "__name__", "")
            if name.startswith("format"):
                _check_format(text, "{", args, kwargs)
            elif name == "replace":
                _check_replace(text, *args)
            elif name == "join":
                _check_join(text, *args)
        return self.made(super().call(context, obj, *args, **kwargs))


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _weigh(value: object) -> tuple[int, int]:
    """Return the parts and characters of a value, repeated references included. Raises if too large."""
    parts, characters, waiting = 0, 0, [value]
    while waiting:
        item = waiting.pop()
        parts += 1
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        if parts + len(waiting) > MAX_PARTS or characters > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("a list is too large")
    return parts, characters


def _checked(value: Any) -> Any:  # whatever was made
    if value.__class__ is not str:
        _weigh(value)
    return value


def _check_join(between: object, values: object = (), *_: object) -> None:
    parts = len(values) if isinstance(values, Sized) else MAX_PARTS  # of what is made as it is read
    if _weigh(values)[1] + parts * _length(between) > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError("the result of join is too large")


def _check_replace(text: object, old: object = "", new: object = "", *_: object, **__: object) -> None:
    if isinstance(text, str) and isinstance(old, str) and _length(new) > len(old):
        times = text.count(old)
        if len(text) + times * _length(new) > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("the result of replace is too large")


def _check_format(text: str, mark: str, *values: object) -> None:
    """Check a text with places for values; any place may show all of them."""
    if _WIDE.search(text):
        raise jinja2.TemplateRuntimeError("a width is too large")
    if text.count(mark) * sum(_weigh(values)) > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError("the result of format is too large")


def _is_small(left: object, right: object) -> bool:
    """Return False if both are integers and their product has too many bits."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() + right.bit_length() <= _MAX_BITS
    return True


def _narrow(*values: object) -> bool:
    return not any(isinstance(value, int) and abs(value) > _MAX_WIDTH for value in values)


_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "+": lambda left, right: (
        _length(left) + _length(right) <= (MAX_CHARACTERS if isinstance(left, str) else MAX_PARTS)
    ),
    "*": lambda left, right: (
        _is_small(left, right)
        and not (
            (isinstance(right, int) and _length(left) * right > MAX_CHARACTERS)
            or (isinstance(left, int) and _length(right) * left > MAX_CHARACTERS)
        )
    ),
    "**": lambda left, right: (
        isinstance(right, int | float)
        and right <= _MAX_EXPONENT
        and not (isinstance(left, int) and left.bit_length() * right > _MAX_BITS)
    ),
}


class ChatTemplate:
    """A compiled chat template. ``now`` returns the time it may print.

    Raises :class:`TemplateError` if it does not parse.
    """

    sandbox: ClassVar[type[Sandbox]] = Sandbox

    def __init__(self, source: str, *, now: Callable[[], dt.datetime | None] = lambda: None) -> None:
        self.source = source
        self._now = now
        self.environment = self.sandbox(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=self._output,
        )
        self.environment.made = self._count
        filters = self.environment.filters
        filters["tojson"] = to_json
        filters |= {name: _bounded_filter(name, own, self._count) for name, own in filters.items()}
        del self.environment.globals["lipsum"]
        self.environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": self._strftime_now,
            _TICK: self._tick,
            _JOIN: self._join,
            _MADE: self._contains,
            _CUT: lambda value: value,  # a call, whose result is counted
        }
        self._steps = self._written = self._shown = self._fixed = self._made = 0
        try:
            self._template = self.environment.from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
            raise TemplateError(f"the chat template does not parse: {error}.") from None

    def render(self, variables: Mapping[str, object]) -> str:
        """Return the prompt. Raises :class:`TemplateError`."""
        return "".join(self.generate(variables))

    def generate(self, variables: Mapping[str, object]) -> Iterator[str]:
        self._steps = self._written = self._shown = self._fixed = self._made = 0
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
        text = value if isinstance(value, str) else str(_checked(value))
        self._written = _bounded(self._written + len(text))  # includes the output of macros and blocks
        return text

    def _show(self, text: str) -> str:
        self._shown = _bounded(self._shown + len(text))
        return text

    def _tick(self, fixed: int) -> str:
        self._steps += 1
        self._fixed += fixed
        if self._fixed > MAX_FIXED:
            raise TemplateError("the chat template repeats too much text.")
        if self._steps > MAX_STEPS:
            raise TemplateError(f"the chat template took more than {MAX_STEPS:,} steps.")
        return ""

    def _count(self, value: Any) -> Any:
        """Return the value, after its size is added to that of all values made."""
        self._made += _length(value) if isinstance(value, str) else 2 * _length(value)
        if self._made > MAX_MADE:
            raise TemplateError(
                f"the chat template made more than {MAX_MADE:,} characters. Use one that does less."
            )
        return value

    def _contains(self, value: Any) -> Any:
        """Return a list or an object, after the parts of all that are in it are counted, too."""
        self._made += 2 * _weigh(value)[0]
        return self._count(value)

    def _join(self, *values: object) -> str:
        texts = [str(_checked(value)) for value in values]
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
        raise TemplateError(f"the chat template wrote more than {MAX_CHARACTERS:,} characters.")
    return characters


# Filters that write a text at each newline, or at any character.
_ADDED_TO_LINES: Final = {"indent": "\n", "wordwrap": ""}


def _bounded_filter(name: str, own: Callable[..., Any], count: Callable[[Any], Any]) -> Callable[..., Any]:
    """Wrap a Jinja filter to check what may be too large, and to count what it makes."""

    @functools.wraps(own)
    def bounded(*args: Any, **kwargs: Any) -> Any:  # as the filter has it
        if name in _WIDTH_FILTERS or name in _TRAVERSING_FILTERS:
            _check_filter(name, args, kwargs)
        return count(own(*args, **kwargs))

    return bounded


def _check_filter(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse huge widths, and values that are too large to traverse."""
    passed = [one for one in args if not isinstance(one, nodes.EvalContext | jinja2.Environment)]
    value, *given = map(_checked, (*passed, *kwargs.values()))
    if name in _WIDTH_FILTERS and not _narrow(*given):
        raise jinja2.TemplateRuntimeError(f"a width of {name} is too large")
    if name == "format":
        _check_format(str(value), "%", given)
    elif name == "replace":
        _check_replace(*passed, **kwargs)
    elif name == "join":
        _check_join(max((one for one in given if isinstance(one, str)), key=len, default=""), value)
    elif name in _ADDED_TO_LINES:
        size = max([4, *(len(n) if isinstance(n, str) else n for n in given if isinstance(n, str | int))])
        _check_replace(value, _ADDED_TO_LINES[name], " " * size)


def _raise_exception(message: object) -> None:
    raise TemplateError(f"the chat template refuses these messages: {message}.")


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # as templates call it
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002  # as templates call it
) -> str:
    """Hugging Face's filter ``tojson``: plain JSON without HTML escapes."""
    between = sum(map(len, separators or ()))
    if not _narrow(indent) or _weigh(value)[0] * between > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError("the result of tojson is too large")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
