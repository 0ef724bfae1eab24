"""List policies and placements with their options, including those of installed packages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, Field
from importlib.metadata import EntryPoint
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from weft.cli import render, tables
from weft.cli.tables import Cell, Column
from weft.wire.views.base import View

EXAMPLE: Final = """Set an option after the name: weft sim demo --cluster 4x8 --policy muri-l:packing=2:autopack=off

example:
  weft policies --json"""

COLUMNS: Final = [Column(name, key=name) for name in ("kind", "name", "options", "about")]


class OptionView(View):
    name: str
    values: str
    default: str | None


class PluginView(View):
    """A placement, or what a policy has in common with one."""

    name: str
    about: str
    options: Sequence[OptionView]


class PolicyView(PluginView):
    aliases: Sequence[str]


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:

    policies = [_with_aliases(each) for each in _describe_all("weft.policies")]
    placements = _describe_all("weft.placements")
    if args.json:
        render.print_json({"schema": 1, "policies": policies, "placements": placements})
        return 0
    plugins = [*(("policy", each) for each in policies), *(("placement", each) for each in placements)]
    rows = [[_cell(kind), _cell(each.name), _options(each), _cell(each.about)] for kind, each in plugins]
    tables.print_table(COLUMNS, rows, args.color, tabs=True)
    return 0


def _describe_all(group: str) -> list[PluginView]:
    from weft.plugins import registry

    return [_describe(name, point) for name, point in registry.registered_plugins(group).items()]


def _with_aliases(plugin: PluginView) -> PolicyView:
    from weft.plugins import registry

    aliases = sorted(alias for alias, name in registry.ALIASES.items() if name == plugin.name)
    return PolicyView(plugin.name, plugin.about, plugin.options, aliases)


def _describe(name: str, point: EntryPoint) -> PluginView:
    """Describe a plugin. One that cannot be loaded is listed with the reason."""
    from weft.plugins import registry

    try:
        cls = point.load()
        hints = get_type_hints(cls)
        options = [_option(field, hints[field.name]) for field in registry.plugin_options(cls)]
        about = (cls.__doc__ or "").strip().partition("\n")[0]
    except (Exception, SystemExit) as error:
        options, about = [], f"cannot be loaded from {point.value}: {type(error).__name__}: {error}"
    return PluginView(name, about, options)


def _option(field: Field[Any], hint: Any) -> OptionView:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return OptionView(field.name, _values(hint), None if default is MISSING else _text(default))


def _values(hint: Any) -> str:
    """Describe the values of an option."""
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


def _options(plugin: PluginView) -> Cell:
    """Format the options as users write them after the name, each with its default."""
    written = [f"{option.name}={option.default or '?'}" for option in plugin.options]
    shown = [f"{text} ({option.values})" for text, option in zip(written, plugin.options, strict=True)]
    return Cell("\n".join(shown), raw=":".join(written) or "-")
