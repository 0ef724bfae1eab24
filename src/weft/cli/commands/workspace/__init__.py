"""Runs the configs of a folder, each as a job, each to be watched in a tmux session of its own."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add

EXAMPLE: Final = """A workspace is a folder with a scheduler_config.yml. In it, ./scheduler.sh COMMAND does the same.

examples:
  weft workspace init experiments
  cd experiments && ./scheduler.sh start
  ./scheduler.sh start "a.yml,b.yml,c.yml" "0,0,1"
  weft workspace --dir experiments status
  ./scheduler.sh other_config.yml start"""

ACTIONS: Final = {
    "init": "make a workspace, or convert a folder",
    "start": "run configs, or go on after stop",
    "status": "tasks and GPUs",
    "stop": "start nothing new; running tasks finish",
    "kill-all": "end every task and session of this workspace",
    "config": "the values in effect, and where each comes from",
    "watch": "the live queue, as the scheduler's session shows it",
    "template": "print scheduler.sh or scheduler_config.yml",
    "help": "this text",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="the workspace (default: here)")
    parser.add_argument("--config", metavar="FILE", help="its config (default: scheduler_config.yml)")
    parser.set_defaults(act=lambda _: _help(parser), command=None)
    actions = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, summary in ACTIONS.items():
        if name == "help":
            actions.add_parser(name, help=summary).set_defaults(act=lambda _: _help(parser))
        else:
            add(actions, "workspace", name, summary, json=name not in ("template", "watch"))


def run(args: argparse.Namespace) -> int:
    return int(args.act(args))


def _help(parser: argparse.ArgumentParser) -> int:
    print(parser.format_help(), end="")
    return 0
