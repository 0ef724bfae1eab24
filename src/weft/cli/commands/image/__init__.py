"""Build, list and remove images for jobs in containers."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.actions import add_actions, run_action

EXAMPLE: Final = """examples:
  weft image build .
  weft run --image $(weft image build .) -- python train.py
  weft image list
  weft image prune"""

ACTIONS: Final = {
    "build": "build the image of a folder, unless its content was built before; print the tag",
    "list": "list the images that were built so",
    "prune": "remove old images",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_actions(parser, "image", ACTIONS)


run = run_action
