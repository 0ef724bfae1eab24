"""Show the settings of all commands. A flag overrides a variable, a variable the project file, that the config file.

The config file is $XDG_CONFIG_HOME/weft/config.yaml, or the one that WEFT_CONFIG names. The project file is weft.yaml
in the current folder or above it; it sets defaults of jobs only. Weft never writes to either."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render, tables
from weft.cli.tables import Cell

EXAMPLE: Final = """In the config file:
  scheduler: gpu-head:50051
  policy: edf            the policy of weft sim, and of a local scheduler that starts for the first time

In the project file, or the config file:
  memory: 8G             defaults of weft submit and weft run
  time: 2h
  group: vision
  notify: failed

examples:
  weft config
  weft config show --origin"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="show", nargs="?", choices=("show",), default="show", help="the settings in effect"
    )
    parser.add_argument("--origin", action="store_true", help="show where each setting comes from")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.config import KEYS, config_file, effective_setting, project_file

    found = {key: effective_setting(key) for key in KEYS}
    if args.json:
        settings = {key: {"value": each.value, "origin": each.origin} for key, each in found.items()}
        project = project_file() or None
        render.print_json({"schema": 1, "file": str(config_file()), "project": project, "settings": settings})
        return 0
    texts = {key: each.value or "-" for key, each in found.items()}
    pairs = [(key, Cell(f"{texts[key]} ({each.origin})" if args.origin else texts[key])) for key, each in found.items()]
    files = [("file", Cell(str(config_file()))), ("project", Cell(project_file() or "-"))]
    tables.print_pairs([*files, *pairs] if args.origin else pairs, args.color)
    return 0
