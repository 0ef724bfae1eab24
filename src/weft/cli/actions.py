"""Subcommands of a command, such as `weft trace show`: one file each, in the command's folder."""

from __future__ import annotations

import importlib
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
