"""List policies and placements with their options, including those of installed packages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from weft.cli import render, tables
from weft.cli.views.plugin_table import COLUMNS, PluginView, describe_all, plugin_row

EXAMPLE: Final = """Set an option after the name: weft sim demo --cluster 4x8 --policy muri-l:packing=2:autopack=off

example:
  weft policies --json"""


class PolicyView(PluginView):
    aliases: Sequence[str]


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:

    policies = [_with_aliases(each) for each in describe_all("weft.policies")]
    placements = describe_all("weft.placements")
    if args.json:
        render.print_json({"schema": 1, "policies": policies, "placements": placements})
        return 0
    plugins = [*(("policy", each) for each in policies), *(("placement", each) for each in placements)]
    rows = [plugin_row(kind, each) for kind, each in plugins]
    tables.print_table(COLUMNS, rows, args.color, tabs=True)
    return 0


def _with_aliases(plugin: PluginView) -> PolicyView:
    from weft.scheduling.plugins import registry

    aliases = sorted(alias for alias, name in registry.ALIASES.items() if name == plugin.name)
    return PolicyView(plugin.name, plugin.about, plugin.options, aliases)
