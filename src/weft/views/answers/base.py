"""Views, the typed answers of the scheduler, and their conversion to and from JSON.

Type checkers see views as frozen dataclasses. `dataclasses` is not used: importing it and generating the methods of
every view would take a third of the CPU time of `weft queue`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform

SCHEMA: Final = 1
_T = TypeVar("_T")
_V = TypeVar("_V", bound="View")
_REQUIRED: Final = object()
"""The default of a field that has none."""


class _Factory:
    """The default of a field with a new value for each view."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], _T]) -> _T:
    """Declare a field whose default is a new value for each view."""
    made: Any = _Factory(default_factory)
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class View:
    """A JSON object with known fields, declared as in a dataclass. The order of the fields is the order of the keys."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {}
    """Fields that hold a view, or a list of views."""
    OPTIONAL: ClassVar[Mapping[str, str]] = {}
    """Fields whose key is left out of the JSON while the named field is None."""
    KEYS: ClassVar[Mapping[str, str]] = {}
    """Keys that are not Python names, by field."""
    DEFAULTS: ClassVar[Mapping[str, object]] = {}
    """The fields and their defaults, which each class derives from its annotations."""

    def __init_subclass__(cls) -> None:
        own = [name for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar")]
        defaults = {name: cls.__dict__.get(name, _REQUIRED) for name in own}
        for name, default in defaults.items():
            if isinstance(default, _Factory):
                delattr(cls, name)  # so that `__getattr__` is called for it
        cls.DEFAULTS = {**cls.DEFAULTS, **defaults}

    def __init__(self, *values: object, **named: object) -> None:
        defaults = self.DEFAULTS
        given = dict(zip(defaults, values, strict=False))
        if len(values) > len(defaults) or given.keys() & named.keys() or named.keys() - defaults.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(defaults)}, each once")
        given.update(named)
        made = vars(self)
        for name, default in defaults.items():
            value = given.get(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{type(self).__name__} needs {name}")
            made[name] = value.make() if isinstance(value, _Factory) else value

    def __getattr__(self, name: str) -> Any:
        """Return the default of a field that an older server does not send."""
        default = self.DEFAULTS.get(name)
        if isinstance(default, _Factory):
            return default.make()
        raise AttributeError(f"{type(self).__name__} has no field {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot set {name!r}: a {type(self).__name__} does not change")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.DEFAULTS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.DEFAULTS)})"


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


def replace_fields(view: _V, **values: object) -> _V:
    """Return the view with other values of some fields."""
    return type(view)(**{name: getattr(view, name) for name in view.DEFAULTS} | values)


def plain(view: View) -> dict[str, Any]:
    """Return the JSON object as plain dicts and lists, for callers outside Weft."""
    found: dict[str, Any] = json.loads(encode(view))
    return found
