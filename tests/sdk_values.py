"""Values of any type of OpenAI's and Anthropic's SDKs, made by chance from the type alone."""

from __future__ import annotations

import random
from functools import cache
from inspect import isclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Required,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel
from typing_extensions import is_typeddict  # of the SDKs' own mappings

Kind: TypeAlias = Any  # a type as an annotation has it
Json: TypeAlias = Any

TEXTS = "hello", "several words in a row", "héllo 😀", "{}", ""
VALUES = {bool: (True, False), int: (0, 7, 1_000), float: (0.5, 1.0), NoneType: (None,)}
# Objects deeper than this have no fields but the required ones.
DEPTH = 4
# An upload takes a file of the caller's in place of its data; it is never part of a message.
FILES = "IO", "PathLike", "bytes"


@cache
def _fields(kind: Kind) -> dict[str, Any]:
    """Return the fields of a mapping with their types."""
    return get_type_hints(kind, include_extras=True)


def members(kind: Kind) -> list[Kind]:
    """Return the types of a union, however it is written."""
    if hasattr(kind, "__value__"):
        return members(kind.__value__)
    origin: Kind = get_origin(kind)
    if origin is Annotated:
        return members(get_args(kind)[0])
    if origin in (Union, UnionType):
        return [member for one in get_args(kind) for member in members(one)]
    return [kind]


class Maker:
    """Makes values of a type, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def value(self, kind: Kind, depth: int = 0) -> Json:
        kinds = [one for one in members(kind) if getattr(one, "__name__", str(one)) not in FILES]
        kind = self.chance.choice(kinds)
        origin: Kind = get_origin(kind)
        inner = get_args(kind)
        if is_typeddict(kind):
            return self.mapping(kind, depth)
        if isclass(kind) and issubclass(kind, BaseModel):
            return self.model(kind, depth)
        if origin is Literal:
            return self.chance.choice(inner)
        if len(inner) == 2:
            return {"key": self.value(inner[1], depth + 1)}
        if inner:
            return [self.value(inner[0], depth + 1) for _ in range(self.chance.randint(depth == 0, 2))]
        return self.chance.choice(VALUES.get(kind, TEXTS))

    def mapping(self, kind: Kind, depth: int) -> dict[str, Any]:
        fields = _fields(kind)
        return {
            name: self.value(get_args(field)[0] if get_origin(field) is Required else field, depth + 1)
            for name, field in fields.items()
            if get_origin(field) is Required or self.wants(depth)
        }

    def model(self, kind: type[BaseModel], depth: int) -> BaseModel:
        fields = {
            field.alias or name: self.value(field.annotation, depth + 1)
            for name, field in kind.model_fields.items()
            if field.is_required() or self.wants(depth)
        }
        return kind.model_construct(None, **fields)

    def wants(self, depth: int) -> bool:
        return depth < DEPTH and self.chance.random() < 0.5
