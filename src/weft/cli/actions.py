"""Subcommands of a command, such as `weft trace show`: one file each, in the command's folder."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import Any

from weft.cli import render
from weft.cli.help_format import HelpFormatter


def add_action(
    actions: Any, command: str, name: str, summary: str, *, json: bool = True, module_name: str = ""
) -> None:
    """Add the module of that name as a subcommand of `command`, with its help text, flags and examples.

    `module_name`: for an action called `run`, whose module would hide the function of that name."""
    module = importlib.import_module(f"weft.cli.commands.{command}.{module_name or name.replace('-', '_')}")
    action = actions.add_parser(
        name,
        help=summary,
        description=module.__doc__,
        epilog=module.EXAMPLE,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    module.configure(action)
    action.set_defaults(act=module.run)
    render.add_arguments(action, json=json)


def add_actions(parser: argparse.ArgumentParser, command: str, actions: Mapping[str, str]) -> None:
    """Add all actions of a command, one of which must be given."""
    below = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    for name, summary in actions.items():
        add_action(below, command, name, summary)


def add_actions_or_help(
    parser: argparse.ArgumentParser, command: str, actions: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> None:
    """Add all actions of a command that prints its help without one. `modules`: names that differ from the action."""
    parser.set_defaults(act=lambda _: print_help(parser))
    below = parser.add_subparsers(metavar="COMMAND", dest="action")
    for name, summary in actions.items():
        add_action(below, command, name, summary, module_name=(modules or {}).get(name, ""))


def run_action(args: argparse.Namespace) -> int:
    return int(args.act(args))


def print_help(parser: argparse.ArgumentParser) -> int:
    print(parser.format_help(), end="")
    return 0
