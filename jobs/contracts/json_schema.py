"""A Python type as JSON Schema (draft 2020-12): the few kinds of types that the contracts are written in."""

from __future__ import annotations

import types
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

_SIMPLE: dict[object, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    object: {},
}


def schema_of(kind: object) -> Schema:
    """The schema of a type.

    Args:
        kind: int, float, str, bool, None, object (anything), `X | Y`, list[X], dict[str, X], Literal, a StrEnum, a
            TypedDict (no further keys are allowed; NotRequired ones may be absent), or Annotated[X, "description"].

    Raises:
        TypeError: another kind of type.
    """
    if isinstance(kind, type) and kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**schema_of(arguments[0]), "description": arguments[1]}
    if origin is NotRequired:
        return schema_of(arguments[0])
    if origin in (Union, types.UnionType):
        return _any_of([schema_of(each) for each in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"type": "string", "enum": [str(each) for each in kind]}
    if isinstance(kind, type) and is_typeddict(kind):
        return _object_of(kind)
    raise TypeError(f"{kind!r} has no place in a contract")


def _any_of(schemas: list[Schema]) -> Schema:
    """One of several; simple types share one `type`, which people read more easily."""
    if all(list(each) == ["type"] for each in schemas):
        return {"type": [each["type"] for each in schemas]}
    return {"anyOf": schemas}


def _object_of(kind: type) -> Schema:
    fields = get_type_hints(kind, include_extras=True)
    found: Schema = {
        "type": "object",
        "properties": {name: schema_of(each) for name, each in fields.items()},
        # __required_keys__ cannot tell where annotations are strings.
        "required": [name for name, each in fields.items() if get_origin(each) is not NotRequired],
        "additionalProperties": False,
    }
    said = (kind.__doc__ or "").strip()
    return {"description": " ".join(said.split()), **found} if said and not said.startswith("dict(") else found
