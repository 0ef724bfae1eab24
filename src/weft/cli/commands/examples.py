"""Write the examples and the scripts for workspaces into a folder, where the commands of the docs find them."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final

import weft
from weft.cli import render
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft examples
  cd weft-examples && sh examples/jobs/tour.sh
  weft-examples/src/scripts/scheduler/setup_workspace.sh ~/experiments"""
FOLDERS: Final = ("examples", "src/scripts/scheduler")
LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", type=Path, default=Path("weft-examples"), help="(%(default)s)"
    )
    render.add_arguments(parser, json=False)


def run(args: argparse.Namespace) -> int:
    package = Path(weft.__file__).parent
    origin = next((each for each in (package / "shipped", package.parents[1]) if (each / "examples").is_dir()), None)
    if origin is None:
        raise InputError("this installation of Weft has no examples", hint="they are in its repository")
    if args.folder.exists():
        raise InputError(f"{args.folder} exists", hint="name a new folder: weft examples DIR")
    for folder in FOLDERS:
        shutil.copytree(origin / folder, args.folder / folder, ignore=LEFT_OUT)
    print(f"wrote {args.folder / 'examples'} and {args.folder / 'src/scripts/scheduler'}")
    return 0
