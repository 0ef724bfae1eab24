"""Conversion between views and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final, TypeVar

SCHEMA: Final = 1
_V = TypeVar("_V", bound="View")


@dataclass(frozen=True)
class View:
    """A JSON object with known fields. The order of the fields is the order of the keys."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {}
    """Fields that hold a view, or a list of views."""
    OPTIONAL: ClassVar[Mapping[str, str]] = {}
    """Fields whose key is left out of the JSON while the named field is None."""
    KEYS: ClassVar[Mapping[str, str]] = {}
    """Keys that are not Python names, by field."""

    def __getattr__(self, name: str) -> Any:
        """Return the default of a field that an older server does not send."""
        for field in () if name.startswith("_") else fields(self):
            if field.name == name and field.default_factory is not MISSING:
                return field.default_factory()
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")


@dataclass(frozen=True)
class Answer(View):
    """A whole answer."""

    schema: int = SCHEMA


def members(view: object) -> dict[str, object]:
    """Return the keys and values of a view, for `json.dumps(default=members)`."""
    if not isinstance(view, View):
        raise TypeError(f"{type(view).__name__} is not a view")
    values = vars(view)
    optional, keys = view.OPTIONAL, view.KEYS
    if not optional and not keys:
        return values
    return {
        keys.get(name, name): value
        for name, value in values.items()
        if name not in optional or values.get(optional[name]) is not None
    }


def encode(view: View) -> str:
    return json.dumps(view, default=members)


def decode(kind: type[_V], text: str) -> _V:
    """Parse an answer. Ignore unknown keys of a newer server, and use defaults for missing ones."""
    return view_of(kind, json.loads(text))


def view_of(kind: type[_V], values: dict[str, Any]) -> _V:
    """Return a view of parsed JSON. `values` become its attributes as they are: an answer may hold 10,000 jobs."""
    for name, part in kind.PARTS.items():
        value = values.get(name)
        if isinstance(value, list):
            values[name] = [view_of(part, each) for each in value]
        elif value is not None:
            values[name] = view_of(part, value)
    if kind.KEYS:
        names = {key: name for name, key in kind.KEYS.items()}
        values = {names.get(key, key): value for key, value in values.items()}
    return build_view(kind, values)


def extend_view(kind: type[_V], view: View, more: Mapping[str, object]) -> _V:
    """Return a view of another kind with the attributes of `view` and more."""
    return build_view(kind, {**vars(view), **more})


def build_view(kind: type[_V], values: dict[str, Any]) -> _V:
    """Return a view with these attributes; three times as fast as its constructor, which sets them one by one."""
    view = object.__new__(kind)
    object.__setattr__(view, "__dict__", values)
    return view


def plain(view: View) -> dict[str, Any]:
    """Return the JSON object as plain dicts and lists, for callers outside Weft."""
    found: dict[str, Any] = json.loads(encode(view))
    return found
