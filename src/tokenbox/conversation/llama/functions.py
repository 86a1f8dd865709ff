"""The global functions and the tests of llama.cpp's Jinja (common/jinja/value.cpp).

The first argument of a filter or test is the value that it is applied to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import (
    LOWER,
    MAX_RANGE,
    UNDEFINED,
    UPPER,
    Function,
    Handler,
    Keyword,
    Loop,
    Undefined,
    as_int,
    ascii_json,
    compare,
    contains,
    key_of,
    kind,
    to_json,
    truth,
    written,
)

if TYPE_CHECKING:
    from tokenbox.conversation.llama.run import Run

# Arguments


def at(args: list[Any], place: int, default: Any = None) -> Any:
    if len(args) > place:
        return args[place]
    if default is None:
        raise TemplateError(f"a function expected at least {place + 1} arguments, got {len(args)}.")
    return default


def keyword(args: list[Any], name: str, default: Any = UNDEFINED) -> Any:
    for arg in args:
        if isinstance(arg, Keyword) and arg.name == name:
            return arg.value
    return default


def named(args: list[Any], name: str, place: int) -> Any:
    found = keyword(args, name)
    if isinstance(found, Undefined) and place < len(args) and not isinstance(args[place], Keyword):
        return args[place]
    return found


def count(args: list[Any], least: int, most: int = 999) -> None:
    if not least <= len(args) <= most:
        raise TemplateError(f"a function expected between {least} and {most} arguments, got {len(args)}.")


def typed(args: list[Any], *types: Any) -> None:
    count(args, len(types))
    for arg, wanted in zip(args, types, strict=False):
        right = type(arg) is int if wanted is int else isinstance(arg, wanted)
        if not right:
            raise TemplateError(f"a function expected another type than {kind(arg)}.")


# Global functions, and filters of several types


def tojson(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 5)
    ascii_only, indent = named(args, "ensure_ascii", 1), named(args, "indent", 2)
    separators = named(args, "separators", 3)
    run.used_deeply(args[0])
    if truth(named(args, "sort_keys", 4)):
        raise TemplateError("NotImplemented: tojson sort_keys=true.")
    width = indent if type(indent) is int else -1
    given = separators if isinstance(separators, list | tuple) else []
    between = written(run, given[0]) if given else (", " if width < 0 else ",")
    after_key = written(run, given[1]) if len(given) > 1 else ": "
    found = to_json(run, args[0], min(width, 1000), between, after_key)
    return ascii_json(found) if truth(ascii_only) and not found.isascii() else found


def default_filter(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 3)
    lacks = (
        not truth(args[0])
        if truth(named(args, "boolean", 2))
        else args[0] is None or isinstance(args[0], Undefined)
    )
    return args[1] if lacks else args[0]


def attribute(value: Any, name: Any, default: Any) -> Any:
    if isinstance(name, Undefined):
        return default
    if isinstance(value, list | tuple):
        place = int(name) if isinstance(name, str) and name.isascii() and name.isdigit() else name
        if isinstance(place, bool | int):
            place = int(place) + len(value) if place < 0 else int(place)
            return value[place] if 0 <= place < len(value) else default
        return default
    return value.get(key_of(name), default) if isinstance(value, dict) else default


def select_filter(*, keep: bool) -> Handler:
    def select(run: Run, env: dict[str, Any], args: list[Any]) -> list[Any]:
        count(args, 2, 4)
        typed(args[:2], (list, tuple), str)
        if len(args) == 2:
            chosen = [truth(attribute(item, args[1], UNDEFINED)) for item in args[0]]
        else:
            # With three arguments, the second names the test, which is applied to the items themselves.
            test = TESTS.get(written(run, args[-2]))
            if test is None:
                raise TemplateError(f"selectattr: unknown test {args[-2]!r}.")

            def passes(item: Any) -> bool:
                value = item if len(args) == 3 else attribute(item, args[1], UNDEFINED)
                return truth(apply_test(run, env, test, [value, args[-1]]))

            kept = run.track.outcomes(args[1:]) if run.track is not None and len(args) == 4 else None
            chosen = [passes(item) for item in args[0]] if kept is None else kept.of(args[0], passes)
        return [item for item, taken in zip(args[0], chosen, strict=True) if taken is keep]

    return select


def _to_object(run: Run, _: dict[str, Any], args: list[Any]) -> dict[Any, Any]:
    run.reads(*args)
    made: dict[Any, Any] = {}
    given, rest = (args[0], args[1:]) if args and isinstance(args[0], list | tuple | dict) else ((), args)
    for pair in given.items() if isinstance(given, dict) else given:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TemplateError("namespace/dict() iterable argument must consist of tuples.")
        made[key_of(pair[0])] = pair[1]
    for arg in rest:
        if not isinstance(arg, Keyword):
            raise TemplateError("namespace/dict() arguments must be kwargs, dict and/or iterable of tuples.")
        made[arg.name] = arg.value
    return made


def _raise(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    typed(args[:1], str)
    raise TemplateError(f"the chat template refuses these messages: {args[0]}.")


def _strftime(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    typed(args[:1], str)
    return run.date(args[0])


def _range(run: Run, _: dict[str, Any], args: list[Any]) -> list[int]:
    count(args, 1, 3)
    typed(args[:1], int)
    bounds = [args[0]] + [as_int(arg) for arg in args[1:]]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if step == 0:
        raise TemplateError("range() step argument must not be zero.")
    places = range(start, stop, step)
    if len(places) > MAX_RANGE:
        raise TemplateError("a range is too long.")
    run.grow(len(places))  # an integer takes as long as a character
    return list(places)


FUNCTIONS: Final[Mapping[str, Handler]] = {
    "raise_exception": _raise, "dict": _to_object, "namespace": _to_object, "strftime_now": _strftime,
    "range": _range, "tojson": tojson,
}  # fmt: skip


# Tests


def apply_test(run: Run, env: dict[str, Any], test: Handler, args: list[Any]) -> Any:
    """Apply a test to its arguments. The first is the value that is tested."""
    run.reads_texts(args)
    return test(run, env, args)


def _in(run: Run, _: dict[str, Any], args: list[Any]) -> bool:
    typed(args, object, object)
    if isinstance(args[1], list | tuple):
        run.reads(args[1])
    return contains(args[0], args[1])


def _of_type(*types: type) -> Handler:
    def test(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
        count(args, 1)
        return (type(args[0]) in types) or isinstance(args[0], tuple(t for t in types if t is not int))

    return test


def _comparing(how: str) -> Handler:
    def test(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
        count(args, 2, 2)
        return compare(args[0], args[1], how)

    return test


def simple(check: Callable[..., Any], *types: Any) -> Handler:
    def run_it(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
        typed(args, *types)
        return check(*args[: len(types)])

    return run_it


def _same(_run: Run, _: dict[str, Any], args: list[Any]) -> bool:
    count(args, 2)
    left, right = args[:2]
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return False
    if type(left) is int and type(right) is int:
        return left == right and -5 <= left <= 256
    if isinstance(left, bool) and isinstance(right, bool):
        return left == right
    return left is right


def unsupported(what: str) -> Handler:
    def fail(_run: Run, _: dict[str, Any], _args: list[Any]) -> Any:
        raise TemplateError(f"NotImplemented: {what}.")

    return fail


def _divisible(value: int, by: int) -> bool:
    if by == 0:
        raise TemplateError("divisibleby zero.")
    return math.fmod(value, by) == 0


_ITERABLE: Final = _of_type(dict, Loop, list, tuple, str, Undefined)
TESTS: Final[Mapping[str, Handler]] = {
    "boolean": _of_type(bool),
    "callable": _of_type(Function),
    "odd": simple(lambda value: value % 2 != 0, int),
    "even": simple(lambda value: value % 2 == 0, int),
    "false": simple(lambda value: value is False, object),
    "true": simple(lambda value: value is True, object),
    "divisibleby": simple(_divisible, int, int),
    "string": _of_type(str),
    "integer": _of_type(int),
    "float": _of_type(float),
    "number": _of_type(int, float),
    "iterable": _ITERABLE,
    "sequence": _ITERABLE,
    "mapping": _of_type(dict, Loop),
    "lower": simple(lambda text: text == text.translate(LOWER), str),
    "upper": simple(lambda text: text == text.translate(UPPER), str),
    "none": simple(lambda value: value is None, object),
    "defined": simple(lambda value: not isinstance(value, Undefined), object),
    "undefined": _of_type(Undefined),
    **{name: _comparing("eq") for name in ("eq", "equalto")},
    **{name: _comparing("gt") for name in ("gt", "greaterthan")},
    **{name: _comparing("lt") for name in ("lt", "lessthan")},
    "ge": _comparing("ge"),
    "ne": _comparing("ne"),
    "in": _in,
    "test": simple(lambda name: name in TESTS, str),
    "sameas": _same,
    "escaped": unsupported("escaped test"),
    "filter": unsupported("filter test"),
}
