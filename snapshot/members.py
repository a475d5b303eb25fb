"""Convert a frozen dataclass to the members of a JSON object.

Each field becomes a member with the field's name. The members of a contained dataclass are in the same object, as in
`rows`. Two fields with the same name are an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from tiersnap.snapshot.rows import without_extras


def members(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the fields of a dataclass by name, with contained dataclasses flattened.

    Values are not converted. If a contained dataclass is None, each of its fields is None.
    """
    return dict(_members(type(value), value))


def plain_members(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return `members` with values converted to texts, numbers, lists and dicts."""
    found: dict[str, Any] = msgspec.to_builtins(members(value))
    return found


def fields_of(base: type, value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the fields of `value` that the dataclass `base` has, by name.

    A caller uses them as arguments to create an object of another subclass of `base`.
    """
    return {each.name: getattr(value, each.name) for each in fields(base)}


def _members(kind: type, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    contained = _contained_in(kind)
    for each in fields(kind):
        inner = None if value is None else getattr(value, each.name)
        if each.name in contained:
            yield from _members(contained[each.name][0], inner)
        else:
            yield each.name, inner


def member_types(kind: type) -> dict[str, Any]:
    """Return the annotation of each member that `members` returns, by name.

    Raises:
        TypeError: two fields have the same name.
    """
    found: dict[str, Any] = {}
    hints, contained = get_type_hints(kind, include_extras=True), _contained_in(kind)
    for each in fields(kind):
        if each.name not in contained:
            inner = {each.name: hints[each.name]}
        else:
            of_kind, is_optional = contained[each.name]
            inner = member_types(of_kind)
            if is_optional:
                inner = {name: hint | None for name, hint in inner.items()}
        if twice := found.keys() & inner.keys():
            raise TypeError(f"{kind.__name__}: two fields have the same JSON member: {', '.join(sorted(twice))}")
        found |= inner
    return found


@cache
def _contained_in(kind: type) -> dict[str, tuple[type, bool]]:
    """Return (dataclass, whether None is allowed) of each field that contains a dataclass, by the field's name."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        of, is_optional = _one_of(without_extras(hint))
        if isinstance(of, type) and is_dataclass(of):
            found[name] = (of, is_optional)
    return found


def _one_of(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401
    """Return (X, True) for the annotation `X | None`, and (hint, False) for any other annotation."""
    inner = [each for each in get_args(hint) if each is not NoneType]
    if get_origin(hint) in (Union, UnionType) and len(inner) == 1:
        return without_extras(inner[0]), True
    return hint, False
