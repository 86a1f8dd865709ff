"""The sandbox of chat templates in Jinja2, with bounds on what templates make and on what they read.

Templates come with models from untrusted sources. The sandbox gives no access to the system. No operation
creates a huge value, and the work of all operations together is bounded: what they make (``made``), and what
they read (``reads``), such as the list in which ``in`` searches.
"""

from __future__ import annotations

import functools
import json
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tokenbox.conversation.bounding import READ, Bounding

MAX_CHARACTERS: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 1_000_000  # of a list, recursively, counting repeated references each time
ITEM: Final = 64
"""An item that is read takes as long as this many characters."""
# Iterators that are alive at once: each may read from another, and Python ends the process at a chain of
# thousands, even if nothing reads it.
MAX_ITERATORS: Final = 200
# Larger widths and exponents give texts and numbers that no prompt contains.
_MAX_WIDTH: Final = 10_000
_MAX_EXPONENT: Final = 64
_MAX_BITS: Final = 4096
_WIDE: Final = re.compile(r"\d{5,}|\*|\{[^{}]*\{")
# Methods of texts that no chat template needs, and whose output is not bounded by their arguments.
_REFUSED_METHODS: Final = frozenset({"encode", "expandtabs", "translate"})
# Filters that no chat template needs: another prompt each time, and a time that grows with the square.
_REFUSED_FILTERS: Final = ("random", "urlize", "wordwrap")
# Filters whose output may be much larger than their input.
_WIDTH_FILTERS: Final = frozenset("center indent format slice batch truncate round".split())
# Filters that read nothing of a value, or only when their result is read.
_INSTANT_FILTERS: Final = frozenset("abs attr count d default first items last length reverse safe".split())
# Filters that look at each item once, and others that go through the items of a text, too.
_LAZY_FILTERS: Final = frozenset("batch list map reject rejectattr select selectattr slice".split())
_ITEM_FILTERS: Final = _LAZY_FILTERS | {"groupby", "join", "max", "min", "sort", "sum", "unique"}
# Filters that may give an iterator, which is read later.
_ITERATORS: Final = _LAZY_FILTERS | {"items", "reverse", "unique"}
# Tests that take no time.
_INSTANT_TESTS: Final = frozenset(
    """
    boolean callable defined divisibleby escaped even false filter float integer iterable mapping none number
    odd sameas sequence string test true undefined
    """.split()
)
# Arguments of a call that are passed in no time; ``*`` passes any number.
_FEW_ARGUMENTS: Final = 16
# The types whose methods read the value and what they are given.
_READING: Final = (str, list, tuple, dict, LoopContext)
_NUMBERS: Final = frozenset((int, float, bool, type(None)))


class Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which no operation creates a huge value.

    ``made`` counts what all of them create, and ``reads`` the characters that all of them read.
    """

    made: Callable[[Any], Any]
    reads: Callable[[int], None]
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, made: Callable[[Any], Any], reads: Callable[[int], None], **options: Any) -> None:
        super().__init__(**options)
        self.made, self.reads = made, reads
        self._iterators = weakref.WeakSet[Iterator[Any]]()
        self.filters |= {"tojson": to_json, "sum": self._sum, "string": printed}
        self.filters |= {name: _refused(name) for name in _REFUSED_FILTERS}
        self.filters = {name: self._bounded_filter(name, own) for name, own in self.filters.items()}
        self.filters[READ] = self.read
        tests: Mapping[str, Any] = self.tests
        self.tests |= {n: self._bounded_test(own) for n, own in tests.items() if n not in _INSTANT_TESTS}
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = self.rewritten(super()._parse(source, name, filename))
        template: nodes.Template = Bounding(self).visit(parsed)
        return template

    def rewritten(self, template: nodes.Template) -> nodes.Template:
        """Return the template as it is compiled."""
        return template

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%":
            if isinstance(left, str):
                self.read(left)
                self.read(right)
                _check_format(left, "%", right)
        elif not _BOUNDS[operator](left, right):
            raise jinja2.TemplateRuntimeError(f"the result of {operator} is too large")
        return self.made(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        refused = isinstance(obj, str) and attr in _REFUSED_METHODS
        return not refused and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Methods such as 'a'.center(10**9). The sandbox itself bounds range().
        self._passed(len(args) + len(kwargs))
        owner = text = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)
        if isinstance(owner, dict):
            self.reads(ITEM * len(owner))
            owner = None
        if obj is dict or isinstance(text, _READING):
            for value in (owner, *args, *kwargs.values()):
                self.read(value)
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

    def getitem(self, obj: Any, argument: Any) -> Any:
        if argument.__class__ is tuple:  # the hash of a tuple is computed each time
            self.read(argument)
        return super().getitem(obj, argument)

    def read(self, value: Any) -> Any:
        """Return the value, after everything that is in it is counted as read."""
        if value.__class__ is str:
            if len(value) > ITEM:  # a shorter one takes no time
                self.reads(len(value))
        elif value.__class__ not in _NUMBERS:
            parts, characters = weigh(value)
            self.reads(ITEM * parts + characters)
        return value

    def _passed(self, arguments: int) -> None:
        if arguments > _FEW_ARGUMENTS:
            self.reads(ITEM * arguments)

    def _items(self, values: Iterable[Any]) -> Iterator[Any]:
        def items() -> Iterator[Any]:
            for value in values:
                self.reads(ITEM)
                yield value

        if len(self._iterators) >= MAX_ITERATORS:
            raise jinja2.TemplateRuntimeError(f"more than {MAX_ITERATORS} iterators are open at once")
        made = items()
        self._iterators.add(made)
        return made

    def _sum(self, values: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
        """The filter ``sum``. Each addition is bounded: a sum of lists copies them each time."""
        if isinstance(start, str):
            raise TypeError("sum() can't sum strings")
        if attribute is not None:
            values = map(make_attrgetter(self, attribute), values)
        return functools.reduce(lambda left, right: self.call_binop(None, "+", left, right), values, start)

    def _bounded_filter(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a filter to check what may be too large, and to count what it reads and makes."""
        is_instant, reads_items = name in _INSTANT_FILTERS, name in _ITEM_FILTERS
        reads_all, makes_items = not is_instant and name not in _LAZY_FILTERS, name in _ITERATORS

        @functools.wraps(own)
        def bounded(*args: Any, **kwargs: Any) -> Any:  # as the filter has it
            self._passed(len(args) + len(kwargs))
            if not is_instant:
                passed = [one for one in args if not isinstance(one, _PASSED)]
                if reads_items:
                    value = passed[0] if passed else None
                    self.reads(2 * ITEM * (len(value) if isinstance(value, Sized) else 1))
                if reads_all:
                    for one in (*passed, *kwargs.values()):
                        self.read(one)
                _check_filter(name, passed, kwargs)
            made = self.made(own(*args, **kwargs))
            return self._items(made) if makes_items and isinstance(made, Iterator) else made

        return bounded

    def _bounded_test(self, own: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def bounded(*args: Any) -> Any:
            for one in args:
                self.read(one)
            return own(*args)

        return bounded


def length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def weigh(value: object) -> tuple[int, int]:
    """Return the parts and characters of a value, repeated references included. Raises if too large."""
    parts, characters, waiting = 0, 0, [value]
    while waiting:
        item = waiting.pop()
        parts += 1
        if isinstance(item, str):
            characters += len(item)
        elif item.__class__ in _NUMBERS:
            continue
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, Collection):  # the messages of a session, a range and keys, too
            waiting += item
        if parts + len(waiting) > MAX_PARTS or characters > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("a list is too large")
    return parts, characters


def check_parts(value: Any) -> Any:  # whatever was made
    if value.__class__ is not str:
        weigh(value)
    return value


def printed(value: Any) -> str:  # whatever a template prints
    """Return a value as text. Raises if the text would have an address, which is another in each process."""
    text = value if isinstance(value, str) else str(check_parts(value))
    if value.__class__ is not str and " at 0x" in text and not _is_data(value):
        raise jinja2.TemplateRuntimeError("a function or an iterator is printed, which has no text")
    return text


def _is_data(value: object) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, Collection) and not isinstance(item, str):
            waiting += item
        elif not (isinstance(item, str) or item.__class__ in _NUMBERS):
            return False
    return True


def _refused(name: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise jinja2.TemplateRuntimeError(f"the filter {name} is not available in chat templates")

    return refuse


def _check_join(between: object, values: object = (), *_: object) -> None:
    parts = len(values) if isinstance(values, Sized) else MAX_PARTS  # of what is made as it is read
    if weigh(values)[1] + parts * length(between) > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError("the result of join is too large")


def _check_replace(text: object, old: object = "", new: object = "", *_: object, **__: object) -> None:
    if isinstance(text, str) and isinstance(old, str) and length(new) > len(old):
        times = text.count(old)
        if len(text) + times * length(new) > MAX_CHARACTERS:
            raise jinja2.TemplateRuntimeError("the result of replace is too large")


def _check_format(text: str, mark: str, *values: object) -> None:
    """Check a text with places for values; any place may show all of them."""
    if _WIDE.search(text):
        raise jinja2.TemplateRuntimeError("a width is too large")
    if text.count(mark) * sum(weigh(values)) > MAX_CHARACTERS:
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
        length(left) + length(right) <= (MAX_CHARACTERS if isinstance(left, str) else MAX_PARTS)
    ),
    "*": lambda left, right: (
        _is_small(left, right)
        and not (
            (isinstance(right, int) and length(left) * right > MAX_CHARACTERS)
            or (isinstance(left, int) and length(right) * left > MAX_CHARACTERS)
        )
    ),
    "**": lambda left, right: (
        isinstance(right, int | float)
        and right <= _MAX_EXPONENT
        and not (isinstance(left, int) and left.bit_length() * right > _MAX_BITS)
    ),
}


# What Jinja2 passes to a filter before its value.
_PASSED: Final = (nodes.EvalContext, jinja2.Environment, Context)


def _check_filter(name: str, passed: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse huge widths, and texts that would repeat another."""
    value, *given = (*passed, *kwargs.values())
    if name in _WIDTH_FILTERS and not _narrow(*given):
        raise jinja2.TemplateRuntimeError(f"a width of {name} is too large")
    if name == "format":
        _check_format(str(value), "%", given)
    elif name == "replace":
        _check_replace(*passed, **kwargs)
    elif name == "join":
        _check_join(max((one for one in given if isinstance(one, str)), key=len, default=""), value)
    elif name == "indent":  # which writes a text at each newline
        size = max([4, *(len(n) if isinstance(n, str) else n for n in given if isinstance(n, str | int))])
        _check_replace(value, "\n", " " * size)


def _depth(value: object) -> int:
    """Return how deep lists and objects are in each other."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | tuple | dict)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  # as templates call it
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002  # as templates call it
) -> str:
    """Hugging Face's filter ``tojson``: plain JSON without HTML escapes."""
    parts, _ = weigh(value)
    between = sum(map(len, separators or ()))
    before = indent if isinstance(indent, int) else length(indent)
    # Each part is on a line of its own, and each list has a line for its end.
    if parts * (between + 2 * before * (_depth(value) if before > 0 else 0)) > MAX_CHARACTERS:
        raise jinja2.TemplateRuntimeError("the result of tojson is too large")
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
