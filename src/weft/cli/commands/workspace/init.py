"""Create scheduler.sh, scheduler_config.yml, configs/ with an example that is not run, and out/.

--force converts an existing workspace: replaced files are kept as *.bak, the keys of its config are adopted, and
completed configs stay completed."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render

EXAMPLE: Final = """examples:
  weft workspace init experiments
  weft workspace init --force old_experiments"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", nargs="?", help="folder, created if it does not exist")
    parser.add_argument("--force", action="store_true", help="convert an existing workspace")


def run(args: argparse.Namespace) -> int:
    from weft.workspace.setup import create_workspace

    done = create_workspace(args.folder or args.dir or ".", force=args.force)
    if args.json:
        render.print_json(
            {"schema": 1, "dir": str(done.home), "made": done.made, "kept": done.kept, "taken": done.taken,
             "dropped": done.dropped}
        )  # fmt: skip
        return 0
    print(f"{done.home}: created {', '.join(done.made) or 'nothing'}")
    if done.kept:
        print(f"kept existing files as {', '.join(done.kept)}")
    if done.taken:
        print(f"adopted: {', '.join(done.taken)}")
    for reason in done.dropped:
        render.print_message(f"not adopted: {reason}")
    return 0
