"""The operations of llama.cpp's Jinja: members, calls, operators and output (common/jinja/runtime.cpp)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tokenbox.conversation.llama.methods import BUILTINS
from tokenbox.conversation.llama.run import MISSING, SHORT, Run, Scope
from tokenbox.conversation.llama.syntax import TemplateError
from tokenbox.conversation.llama.values import (
    Function,
    Loop,
    Undefined,
    cast_int,
    contains,
    decoded,
    encoded,
    equal,
    index_text,
    is_number,
    key_of,
    kind,
    text_of,
    written,
)

_SAME: Final = frozenset({"default", "safe"})
# The methods of lists and objects that take the same time for one of any size.
_BRIEF: Final = frozenset({"append", "default", "first", "get", "last", "length", "pop"})


def is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def fork(run: Run, env: Scope) -> Scope:
    """Return a nested scope, a copy of the outer one."""
    run.steps(1 + len(env) // 16)
    return dict(env) if type(env) is dict else env.fork()  # type: ignore[attr-defined]  # a tracked scope


def print_value(run: Run, value: Any, out: list[Any]) -> None:
    """Print a value: lists item by item; objects and missing values print nothing."""
    run.reads(value)
    if isinstance(value, str):
        if value:
            out.append(value)
    elif isinstance(value, list | tuple):
        for item in value:
            run.steps()
            print_value(run, item, out)
    elif isinstance(value, bool | int | float):
        out.append(text_of(value))


def builtin(run: Run, name: str, value: Any) -> Function | None:
    if run.usage is not None:
        run.used(value, name)
    table = BUILTINS.get(type(value))
    if table is None:
        raise TemplateError(f"{kind(value)} has no builtins.")
    handler = table.get(name)
    return None if handler is None else Function(name, handler, (value,))


def invoke(run: Run, env: Scope, function: Any, args: list[Any]) -> Any:
    if not isinstance(function, Function):
        raise TemplateError(f"Callee is not a function: got {kind(function)}.")
    if function.bound:  # a method or filter
        run.reads_texts((*function.bound, *args))
        if function.name not in _BRIEF and not isinstance(function.bound[0], str):
            run.reads(function.bound[0])
    result = function.call(run, env, [*function.bound, *args])
    if (
        run.usage is not None
        and isinstance(result, str)
        and function.bound
        and result is function.bound[0]
        and function.name not in _SAME
    ):
        # llama.cpp creates a new value where Python returns the same object.
        return decoded(encoded(result))
    return result


def member(run: Run, owner: Any, key: Any) -> Any:
    """Return ``owner[key]``, or ``owner.key`` if that is not a method."""
    if isinstance(key, Undefined):
        return Undefined("object_property")
    found: Any = MISSING
    if isinstance(owner, dict):
        found = owner.get(key_of(key), MISSING)
        if found is MISSING or isinstance(found, Undefined):
            found = builtin(run, written(run, key), owner) or Undefined("object_property")
    elif isinstance(owner, Undefined):
        key_of_any(key)
        return Undefined("object_property")
    elif isinstance(owner, str | list | tuple):
        key_of_any(key)
        found = Undefined("object_property")
        if isinstance(key, int):
            run.reads_texts([owner])
            at: Callable[[Any, int, Any], Any] = index_text if isinstance(owner, str) else item_at
            found = at(owner, int(key), found)
        elif isinstance(key, str):
            found = builtin(run, key, owner) or found
    else:
        key_of_any(key)
        if not isinstance(key, str):
            raise TemplateError(f"Cannot access property with non-string: got {kind(key)}.")
        found = builtin(run, key, owner) or Undefined("object_property")
    if run.usage is not None:
        run.used(found)
        by_place = isinstance(key, int) and not isinstance(owner, dict)
        run.used(owner, "array_access" if by_place else "object_access")
    return found


def items_of(owner: Any) -> list[Any]:
    """Return the items of a loop; for tracked messages, which do not change meanwhile, the plain list."""
    plain: list[Any] | None = getattr(owner, "plain", None)
    if plain is None:
        return list(owner)
    owner.track.unread = owner
    return plain


def item_at(owner: Any, place: int, default: Any) -> Any:
    follow = getattr(owner, "at", None)
    if follow is not None:
        found = follow(place)
        return default if found is None else found
    place += len(owner) if place < 0 else 0
    return owner[place] if 0 <= place < len(owner) else default


def key_of_any(key: Any) -> None:
    """Raise unless the value can be a key."""
    if isinstance(key, Function):
        raise TemplateError(f"Type: {kind(key)} is not allowed as object key.")


def equals(run: Run, left: Any, right: Any) -> bool:
    if isinstance(left, str) and len(left) <= SHORT:
        return isinstance(right, str) and left == right
    run.reads(left, right)
    return equal(left, right)


def binary(run: Run, name: str, left: Any, right: Any) -> Any:
    """Apply a binary operator other than ``and``, ``or``, ``==`` and ``!=``."""
    if isinstance(left, Undefined) or isinstance(right, Undefined) or left is None or right is None:
        return _with_nothing(name, left, right)
    if is_number(left) and is_number(right):
        found = _arithmetic(name, left, right)
        if found is not None:
            return found
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and name == "+":
        run.steps(len(left) + len(right))
        return [*left, *right]
    if (isinstance(left, str) or isinstance(right, str)) and name in {"~", "+"}:
        texts = written(run, left), written(run, right)
        run.grow(len(texts[0]) + len(texts[1]))
        return texts[0] + texts[1]
    if name == "*":
        text, times = (left, right) if isinstance(left, str) else (right, left)
        if isinstance(text, str) and type(times) is int:
            run.grow(len(text) * max(0, times))
            return text * times
    both_texts = isinstance(left, str) and isinstance(right, str)
    is_member = both_texts or isinstance(right, dict) or (is_list(right) and not is_list(left))
    if name in {"in", "not in"} and is_member:
        run.reads(left, None if isinstance(right, dict) else right)
        return contains(left, right) is (name == "in")
    raise TemplateError(f"Unknown operator {name!r} between {kind(left)} and {kind(right)}.")


def _with_nothing(name: str, left: Any, right: Any) -> Any:
    undefined = isinstance(left, Undefined) or isinstance(right, Undefined)
    if name in {"in", "not in"}:
        if isinstance(right, Undefined):
            return name == "not in"
        if not undefined and right is not None:
            return contains(left, right) is (name == "in")
    if name in {"+", "~"}:
        if isinstance(left, str):
            return left
        if isinstance(right, str):
            return right
    raise TemplateError(f"Cannot perform operation {name} on undefined or null values.")


def _arithmetic(name: str, left: Any, right: Any) -> Any:
    a, b = _double(left), _double(right)
    if name == "/":
        return a / b if b else math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)
    if name in _ORDER:
        return _ORDER[name](a, b)
    if name not in _ARITHMETIC:
        return None
    found = _ARITHMETIC[name](a, b)
    return found if isinstance(left, float) or isinstance(right, float) else cast_int(found)


def _modulo(a: float, b: float) -> float:
    return math.fmod(a, b) if b and math.isfinite(a) else math.nan


_ARITHMETIC: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul, "%": _modulo}
_ORDER: Final = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def _double(value: Any) -> float:
    found = float(value)
    if isinstance(value, int) and int(found) != value:
        return -math.inf if value < 0 else math.inf
    return found


def loop_variables(items: list[Any], place: int) -> Loop:
    size = len(items)
    return Loop(
        index=place + 1,
        index0=place,
        revindex=size - place,
        revindex0=size - place - 1,
        first=place == 0,
        last=place == size - 1,
        length=size,
        previtem=items[place - 1] if place else Undefined("previtem"),
        nextitem=items[place + 1] if place < size - 1 else Undefined("nextitem"),
    )
