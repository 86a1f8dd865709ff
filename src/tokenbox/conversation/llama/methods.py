"""The methods and filters of values in llama.cpp's Jinja, by type (common/jinja/value.cpp)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tokenbox.conversation.llama.functions import (
    attribute,
    count,
    default_filter,
    keyword,
    named,
    select_filter,
    simple,
    tojson,
    typed,
    unsupported,
)
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.text_methods import TEXT_METHODS, slice_filter
from tokenbox.conversation.llama.values import (
    UNDEFINED,
    Handler,
    Keyword,
    Loop,
    Undefined,
    as_int,
    cast_int,
    compare,
    is_number,
    like,
    text_of,
    truth,
    written,
)

if TYPE_CHECKING:
    from tokenbox.conversation.llama.run import Run

# Numbers and bools

_INT: Final[Mapping[str, Handler]] = {
    "default": default_filter, "abs": simple(abs, int), "int": simple(int, int), "float": simple(float, int),
    "safe": tojson, "string": tojson, "tojson": tojson,
}  # fmt: skip
_FLOATS: Final[Mapping[str, Handler]] = {
    "default": default_filter, "abs": simple(abs, float), "int": simple(cast_int, float),
    "float": simple(float, float), "safe": tojson, "string": tojson, "tojson": tojson,
}  # fmt: skip
_BOOL: Final[Mapping[str, Handler]] = {
    "default": default_filter, "int": simple(int, bool), "float": simple(float, bool),
    "safe": simple(text_of, bool), "string": simple(text_of, bool), "tojson": tojson,
}  # fmt: skip


# Lists


def _first(values: Any) -> Any:
    return values[0] if values else UNDEFINED


def _last(values: Any) -> Any:
    return values[-1] if values else UNDEFINED


def _attribute_of(args: list[Any], place: int) -> Callable[[Any], Any]:
    """Return a function to the attribute of an item that is named at this place; without one, to the item."""
    name = named(args, "attribute", place)
    return lambda item: item if isinstance(name, Undefined) else attribute(item, name, UNDEFINED)


def _join(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    count(args, 1, 3)
    typed(args[:1], (list, tuple))
    between, key = named(args, "d", 1), _attribute_of(args, 2)
    texts = []
    for value in map(key, args[0]):
        if not isinstance(value, str) and not is_number(value):
            raise TemplateError("join() can only join arrays of strings or numerics.")
        texts.append(text_of(value))
    glue = "" if isinstance(between, Undefined) else written(run, between)
    run.grow(sum(map(len, texts)) + len(glue) * len(texts))
    return glue.join(texts)


def _shown_list(run: Run, _: dict[str, Any], args: list[Any]) -> str:
    run.used_deeply(args[0])
    return written(run, args[0])


def _map(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2)
    if not isinstance(args[1], Keyword):
        raise TemplateError("NotImplemented: map with a filter.")
    name, default = named(args, "attribute", 1), keyword(args, "default")
    return like(args[0], [attribute(item, name, default) for item in args[0]])


def _append(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2)
    if isinstance(args[0], tuple):
        raise TemplateError("Attempting to modify immutable type.")
    run.changes(args[0])
    args[0].append(args[1])
    return args[0]


def _pop(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 1, 2)
    if isinstance(args[0], tuple):
        raise TemplateError("Attempting to modify immutable type.")
    place = as_int(args[1]) if len(args) > 1 else -1
    place += len(args[0]) if place < 0 else 0
    if not 0 <= place < len(args[0]):
        raise TemplateError("pop: the index is out of bounds.")
    run.changes(args[0])
    return args[0].pop(place)


def _before(left: Any, right: Any, *, reverse: bool) -> int:
    how = "gt" if reverse else "lt"
    return -1 if compare(left, right, how) else 1 if compare(right, left, how) else 0


def _sorted(run: Run, items: list[Any], key: Callable[[Any], Any], *, reverse: bool) -> list[Any]:
    """Sort as C++ does. The order of equal items is certain only for short lists."""
    order = functools.cmp_to_key(functools.partial(_before, reverse=reverse))
    found = sorted(items, key=lambda item: order(key(item)))
    if len(items) > 16 and any(
        _before(key(a), key(b), reverse=reverse) == 0 for a, b in itertools.pairwise(found)
    ):
        run.uncertain = True
    return found


def _sort(run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 1, 4)
    reverse = truth(named(args, "reverse", 1))
    return like(args[0], _sorted(run, list(args[0]), _attribute_of(args, 3), reverse=reverse))


def _extreme(how: str) -> Handler:
    def extreme(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
        count(args, 1, 4)
        key = _attribute_of(args, 2)
        if not args[0]:
            return UNDEFINED
        best = args[0][0]
        for item in args[0]:
            if compare(key(item), key(best), how):
                best = item
        return best

    return extreme


def _listed(change: Callable[..., Any]) -> Handler:
    return simple(change, (list, tuple))


_LIST: Final[Mapping[str, Handler]] = {
    "default": default_filter,
    "list": _listed(list),
    "first": _listed(_first),
    "last": _listed(_last),
    "length": _listed(len),
    "slice": slice_filter,
    "selectattr": select_filter(keep=True),
    "select": select_filter(keep=True),
    "rejectattr": select_filter(keep=False),
    "reject": select_filter(keep=False),
    "join": _join,
    "string": _shown_list,
    "tojson": tojson,
    "map": _map,
    "append": _append,
    "pop": _pop,
    "sort": _sort,
    "reverse": _listed(lambda values: values[::-1]),
    "min": _extreme("lt"),
    "max": _extreme("gt"),
    "unique": unsupported("Array unique"),
}


# Objects


def _get(_run: Run, _: dict[str, Any], args: list[Any]) -> Any:
    count(args, 2, 3)
    typed(args[:2], dict, str)
    return args[0].get(args[1], args[2] if len(args) > 2 else None)


def _dictsort(run: Run, _: dict[str, Any], args: list[Any]) -> dict[Any, Any]:
    by, reverse = named(args, "by", 2), truth(named(args, "reverse", 3))
    place = 1 if by == "value" else 0
    return dict(_sorted(run, list(args[0].items()), lambda pair: pair[place], reverse=reverse))


_OBJECT: Final[Mapping[str, Handler]] = {
    "get": _get,
    "keys": simple(list, dict),
    "values": simple(lambda value: list(value.values()), dict),
    "items": simple(lambda value: list(value.items()), dict),
    "tojson": tojson,
    "string": _shown_list,
    "length": simple(len, dict),
    "dictsort": _dictsort,
    "join": unsupported("object join"),
}


# None and undefined values


def _empty(make: Callable[[], Any]) -> Handler:
    def empty(_run: Run, _: dict[str, Any], _args: list[Any]) -> Any:
        return make()

    return empty


_NO_LIST, _NO_TEXT = _empty(list), _empty(str)
_NO_NUMBER, _NO_VALUE = _empty(int), _empty(lambda: UNDEFINED)
_NO_LISTS: Final = ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")
_NONE: Final[Mapping[str, Handler]] = {
    "default": default_filter,
    "tojson": tojson,
    **dict.fromkeys(("string", "safe"), _empty(lambda: "None")),
    **dict.fromkeys(_NO_LISTS, _NO_LIST),
}
_NOTHING: Final[Mapping[str, Handler]] = {
    "default": default_filter,
    **dict.fromkeys((*_NO_LISTS, "list", "reverse", "sort"), _NO_LIST),
    **dict.fromkeys(
        ("capitalize", "join", "lower", "replace", "safe", "string", "strip", "title", "truncate", "upper"),
        _NO_TEXT,
    ),
    **dict.fromkeys(("length", "sum", "wordcount"), _NO_NUMBER),
    **dict.fromkeys(("first", "last", "max", "min"), _NO_VALUE),
}

BUILTINS: Final[dict[type, Mapping[str, Handler]]] = {
    str: TEXT_METHODS,
    int: _INT,
    float: _FLOATS,
    bool: _BOOL,
    list: _LIST,
    tuple: _LIST,
    dict: _OBJECT,
    Loop: {},
    type(None): _NONE,
    Undefined: _NOTHING,
}
"""The methods and filters of each type."""
