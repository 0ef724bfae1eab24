"""Lists the policies and placements there are, those of installed packages included, with their options."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field
from importlib.metadata import EntryPoint
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

EXAMPLE: Final = """An option is set with the name: weft sim demo --cluster 4x8 --policy muri-l:packing=2:autopack=off

example:
  weft policies --json"""

COLUMNS: Final = [Column(name, key=name) for name in ("kind", "name", "options", "about")]


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.plugins import registry

    found = {
        kind: [_describe(name, point) for name, point in registry.registered_plugins(f"weft.{kind}").items()]
        for kind in ("policies", "placements")
    }
    for entry in found["policies"]:
        entry["aliases"] = sorted(alias for alias, name in registry.ALIASES.items() if name == entry["name"])
    if args.json:
        render.print_json({"schema": 1, **found})
        return 0
    rows = [
        [_cell(kind), _cell(entry["name"]), _options(entry), _cell(entry["about"])]
        for kind, entries in (("policy", found["policies"]), ("placement", found["placements"]))
        for entry in entries
    ]
    tables.print_table(COLUMNS, rows, args.color, tabs=True)
    return 0


def _describe(name: str, point: EntryPoint) -> dict[str, Any]:
    """One that cannot be loaded is listed with the reason: the others are of use still."""
    from weft.plugins import registry

    try:
        cls = point.load()
        hints = get_type_hints(cls)
        options = [_option(field, hints[field.name]) for field in registry.plugin_options(cls)]
        about = (cls.__doc__ or "").strip().partition("\n")[0]
    except (Exception, SystemExit) as error:
        options, about = [], f"cannot be loaded from {point.value}: {type(error).__name__}: {error}"
    return {"name": name, "about": about, "options": options}


def _option(field: Field[Any], hint: Any) -> dict[str, Any]:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return {"name": field.name, "values": _values(hint), "default": None if default is MISSING else _text(default)}


def _values(hint: Any) -> str:
    """What may be written after the `=`."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "|".join(map(str, args))
    if origin in (Union, UnionType):
        return "|".join("none" if arg is type(None) else _values(arg) for arg in args)
    if origin is tuple:
        return f"{_values(args[0])}+..."
    return {bool: "on|off", int: "whole number", float: "number"}.get(hint, "text")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return "+".join(map(_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if value is None else str(value)


def _cell(text: str) -> Cell:
    return Cell(text, raw=text)


def _options(entry: dict[str, Any]) -> Cell:
    """As they are written after the name, each with its default."""
    written = [f"{option['name']}={option['default'] or '?'}" for option in entry["options"]]
    shown = [f"{text} ({option['values']})" for text, option in zip(written, entry["options"], strict=True)]
    return Cell("\n".join(shown), raw=":".join(written) or "-")
