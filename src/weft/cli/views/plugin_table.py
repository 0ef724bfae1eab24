"""Plugins as users choose them: names, options with their values and defaults, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field
from importlib.metadata import EntryPoint
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from weft.cli.tables import Cell, Column
from weft.views.answers.base import View

COLUMNS: Final = [Column(name, key=name) for name in ("kind", "name", "options", "about")]


class OptionView(View):
    name: str
    values: str
    default: str | None


class PluginView(View):
    """A placement or an autoscaler, or what a policy has in common with one."""

    name: str
    about: str
    options: Sequence[OptionView]


def describe_all(group: str) -> list[PluginView]:
    """Describe the plugins of a group of entry points."""
    from weft.scheduling.plugins import registry

    return [_describe(name, point) for name, point in registry.registered_plugins(group).items()]


def plugin_row(kind: str, plugin: PluginView) -> list[Cell]:
    return [_cell(kind), _cell(plugin.name), _options(plugin), _cell(plugin.about)]


def _describe(name: str, point: EntryPoint) -> PluginView:
    """Describe a plugin. One that cannot be loaded is listed with the reason."""
    from weft.scheduling.plugins import registry

    try:
        cls = point.load()
        hints = get_type_hints(cls)
        options = [_option(field, hints[field.name]) for field in registry.plugin_options(cls)]
        about = (cls.__doc__ or "").strip().partition("\n")[0]
    except (Exception, SystemExit) as error:
        options, about = [], f"cannot be loaded from {point.value}: {type(error).__name__}: {error}"
    return PluginView(name, about, options)


def _option(field: Field[Any], hint: Any) -> OptionView:
    from weft.scheduling.plugins import registry

    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return OptionView(registry.option_name(field), _values(hint), None if default is MISSING else _text(default))


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
