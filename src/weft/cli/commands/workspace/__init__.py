"""Run the configs of a folder, each as a job with a tmux session to watch."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_action, print_help, run_action

EXAMPLE: Final = """A workspace is a folder with a scheduler_config.yml. In it, ./scheduler.sh COMMAND does the same.

examples:
  weft workspace init experiments
  cd experiments && ./scheduler.sh start
  ./scheduler.sh start "a.yml,b.yml,c.yml" "0,0,1"
  weft workspace --dir experiments status
  ./scheduler.sh other_config.yml start"""

ACTIONS: Final = {
    "init": "create a workspace, or convert a folder",
    "start": "run configs, or continue after stop",
    "status": "show tasks and GPUs",
    "stop": "stop starting tasks; running tasks finish",
    "kill-all": "end every task and session of this workspace",
    "config": "show the values in effect, and where each comes from",
    "watch": "show the live queue, as in the scheduler's session",
    "template": "print scheduler.sh or scheduler_config.yml",
    "help": "print this text",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="folder of the workspace (default: the current one)")
    parser.add_argument("--config", metavar="FILE", help="config file of the workspace (default: scheduler_config.yml)")
    parser.set_defaults(act=lambda _: print_help(parser), command=None)
    actions = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, summary in ACTIONS.items():
        if name == "help":
            actions.add_parser(name, help=summary).set_defaults(act=lambda _: print_help(parser))
        else:
            add_action(actions, "workspace", name, summary, json=name not in ("template", "watch"))


run = run_action
