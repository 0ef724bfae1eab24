"""The registry of policies, placements and autoscalers.

A spec is `NAME[:option=value...]`, or `path/file.py:ClassName[:option=value...]` for a class in a file. Names come from
entry points (groups `weft.policies`, `weft.placements`, `weft.scalers`), so installed packages can add more. Options
are the fields of the dataclass. List values are joined with `+`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import FunctionType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from weft.errors import InputError, UnknownName
from weft.scheduling.core.ports import Placement, Policy
from weft.scheduling.scaling.port import Autoscaler

ALIASES = {
    "shortest": "srtf",
    "shortest-gpu": "srsf",
    "dlas-gpu": "tiresias",
    "multi-resource-blossom-same-gpu": "muri-s",
    "multi-resource-blossom-same-gpu-unaware": "muri-l",
    "multi-resource-gpu-unaware": "muri-l:blossom=off",
    "multi-resource-blossom-same-gpu-unaware-worstordering": "muri-l:ordering=worst",
}
"""Names of policies in the literature."""


def load_policy(spec: str) -> Policy:
    return cast(Policy, _load("policy", "weft.policies", spec))


def load_placement(spec: str) -> Placement:
    return cast(Placement, _load("placement", "weft.placements", spec))


def load_scaler(spec: str) -> Autoscaler:
    return cast(Autoscaler, _load("scaler", "weft.scalers", spec))


def registered_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; raise InputError if two packages register the same name."""
    return dict(_registered_on(tuple(sys.path), group))


@lru_cache(maxsize=32)
def _registered_on(_path: tuple[str, ...], group: str) -> dict[str, EntryPoint]:
    """Read the packages on the path once: it takes milliseconds, and a forecast or a test creates many schedulers."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise InputError(f"two packages register {point.name!r} in {group}: {other.value} and {point.value}",
                             hint="uninstall one, or rename its entry point")  # fmt: skip
    return dict(sorted(found.items()))


def resolve_alias(spec: str) -> str:
    """Return the spec with a name from the literature replaced by Weft's."""
    name, _, options = spec.partition(":")
    ours = ALIASES.get(name, name)
    return f"{ours}:{options}" if options else ours


def is_file(spec: str) -> bool:
    """Return whether a spec names a file, which is executed, and not a registered plugin."""
    head = spec.partition(":")[0]
    return head.endswith(".py") or "/" in head


def absolute_spec(spec: str) -> str:
    """Return the spec with the path of its file absolute: a scheduler works in another folder than the user."""
    head, colon, rest = spec.partition(":")
    return f"{Path(head).absolute()}{colon}{rest}" if is_file(spec) else spec


def plugin_options(cls: type) -> list[Field[Any]]:
    return [field for field in fields(cls) if field.init and not field.name.startswith("_")]


def option_name(field: Field[Any]) -> str:
    """Return the name of an option: that of its field, without the underscore that avoids a keyword."""
    return field.name.rstrip("_")


def _load(kind: str, group: str, spec: str) -> object:
    if spec.endswith(":"):
        hint = f"write {spec.rstrip(':')}, or {spec}option=value"
        raise InputError(f"no option after the last colon of {kind} {spec!r}", hint=hint)
    head, *rest = resolve_alias(spec).split(":")
    label = head
    if is_file(head):
        if not rest:
            raise InputError(f"no class named in {spec!r}", hint=f"write {head}:ClassName[:option=value...]")
        cls, label, rest = _load_file(kind, Path(head), rest[0]), f"{head}:{rest[0]}", rest[1:]
        if isinstance(cls, FunctionType):
            return _load_classic(kind, spec, cls, rest)
    else:
        known = registered_plugins(group)
        if head not in known:
            aliases = [alias for alias in ALIASES if kind == "policy"]
            raise UnknownName(kind, head, [*known, *aliases], more=f"known: {', '.join(sorted(known))}")
        with _explain_errors(f"{kind} {head!r} of {known[head].value}"):
            cls = known[head].load()
    _check_class(kind, spec, cls)
    options = [_split_option(spec, text) for text in rest]
    twice = [name for at, (name, _) in enumerate(options) if name in dict(options[:at])]
    if twice:
        raise InputError(f"option {twice[0]!r} of {spec!r} is given twice", hint="give each option once")
    return _instantiate(cls, label, dict(options))


def _check_class(kind: str, spec: str, cls: type) -> None:
    if kind == "policy" and not (isinstance(cls, type) and issubclass(cls, Policy)):
        raise InputError(f"{spec!r} is not a policy", hint="derive it from weft.policy.Policy or Replanner")
    if kind == "placement" and not (isinstance(cls, type) and issubclass(cls, Placement)):
        hint = "derive it from weft.policy.Placement and give it place(self, shape, free)"
        raise InputError(f"{spec!r} is not a placement", hint=hint)
    if kind == "scaler" and not (isinstance(cls, type) and issubclass(cls, Autoscaler)):
        hint = "derive it from weft.policy.Autoscaler and give it decide(self, memory, load)"
        raise InputError(f"{spec!r} is not an autoscaler", hint=hint)
    if not is_dataclass(cls):
        raise InputError(f"{kind} {spec!r} is not a dataclass", hint="decorate it with @dataclass(frozen=True)")


@contextmanager
def _explain_errors(what: str, file: str = "") -> Iterator[None]:
    """Turn every exception that a plugin's code raises into an InputError with its file and line."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        failure = (
            f"it calls sys.exit({error.code!r})"
            if isinstance(error, SystemExit)
            else f"{type(error).__name__}: {error}"
        )
        frames = [frame for frame in extract_tb(error.__traceback__) if _is_plugin_code(frame.filename, file)]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else file
        if isinstance(error, SyntaxError) and error.filename:
            where, failure = f"{error.filename}:{error.lineno}", f"SyntaxError: {error.msg}"
        raise InputError(f"cannot load {what}: {failure}", where=where, hint="correct the error there") from error


def _is_plugin_code(frame: str, file: str) -> bool:
    return frame == file if file else not frame.startswith(("<", str(Path(__file__).parents[2])))


def _load_classic(kind: str, spec: str, function: FunctionType, options: list[str]) -> object:
    """Return a placement of the classic form from a function."""
    if kind != "placement" or options:
        hint = "a function assign(workers, task) is a placement, and takes no options"
        raise InputError(f"{spec!r} is a function, not a {kind}", hint=hint)
    from weft.scheduling.placements.classic import Classic

    return Classic(function)


def _load_file(kind: str, path: Path, name: str) -> type | FunctionType:
    if not path.is_file():
        raise InputError(f"no such file: {path}", hint=f"give a {kind} in a file as path/file.py:ClassName")
    module_name = f"weft_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(
            "not a Python file", where=str(path), hint=f"give a {kind} in a file as path/file.py:ClassName"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    with _explain_errors(str(path), str(spec.origin)):
        spec.loader.exec_module(module)
    kinds = (type, FunctionType)
    known = [n for n, value in vars(module).items() if isinstance(value, kinds) and value.__module__ == module_name]
    if name not in known:
        raise UnknownName(f"class in {path}", name, known)
    return cast(type | FunctionType, getattr(module, name))


def _split_option(spec: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"option {text!r} of {spec!r} has no value", hint="write options as name=value")
    return name, value


def _instantiate(cls: type, name: str, given: dict[str, str]) -> object:
    known = {option_name(field): field for field in plugin_options(cls)}
    with _explain_errors(f"the options of {name}", sys.modules[cls.__module__].__file__ or ""):
        hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for option, text in given.items():
        if option not in known:
            raise UnknownName(f"option of {name}", option, known or ["(it has none)"])
        field = known[option].name
        values[field] = _parse(f"{name}:{option}", text, hints[field])
    missing = [option for option, field in known.items() if option not in given and _is_required(field)]
    if missing:
        raise InputError(f"{name} needs option {missing[0]!r}", hint=f"write {name}:{missing[0]}=VALUE")
    with _explain_errors(name):
        try:
            made = cls(**values)
        except (TypeError, ValueError) as error:
            listing = "weft scalers" if issubclass(cls, Autoscaler) else "weft policies"
            hint = "its options are the fields of the class" if ":" in name else f"{listing} lists its options"
            raise InputError(f"{name}: {error}", hint=hint) from error
    return cast(object, made)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _parse(what: str, text: str, wanted: Any) -> Any:
    """Parse the text as a value of the field's type."""
    origin, args = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        if type(None) in args and text in ("none", "off"):
            return None
        return _parse(what, text, next(arg for arg in args if arg is not type(None)))
    if origin is Literal:
        allowed = {str(arg): arg for arg in args}
        if text not in allowed:
            raise InputError(f"{what} cannot be {text!r}", hint=f"one of {', '.join(allowed)}")
        return allowed[text]
    if origin is tuple:
        if text == "none":
            return ()
        return tuple(_parse(what, part, args[0]) for part in text.split("+"))
    if wanted is bool:
        return _parse_switch(what, text, {"on": True, "off": False, "true": True, "false": False})
    if wanted in (int, float):
        return _parse_number(what, text, wanted)
    return text


def _parse_switch(what: str, text: str, allowed: dict[str, bool]) -> bool:
    if text.lower() not in allowed:
        raise InputError(f"{what} cannot be {text!r}", hint=f"one of {', '.join(_first_two(allowed))}")
    return allowed[text.lower()]


def _parse_number(what: str, text: str, wanted: type) -> Any:
    try:
        value = wanted(text)
    except ValueError:
        noun = "a whole number" if wanted is int else "a number"
        raise InputError(f"{what} must be {noun}, not {text!r}") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise InputError(f"{what} must be finite, not {text!r}")
    return value


def _first_two(allowed: Iterable[str]) -> list[str]:
    return list(allowed)[:2]
