"""Remove images that `weft image build` has built, except the newest of each name. Images in use stay."""

from __future__ import annotations

import argparse
import os
from typing import Final

from weft.cli import flags, render

EXAMPLE: Final = """examples:
  weft image prune
  weft image prune --keep 3 --dry-run"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", metavar="N", type=flags.whole_number(0, 10_000), default=1, help="images of each name to keep (1)"
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be removed, remove nothing")
    parser.add_argument("--runtime", metavar="NAME", default="", help="podman or docker (the first that works)")


def run(args: argparse.Namespace) -> int:
    from weft.access.jobspec.readers import runtime
    from weft.node.engine.container.detection import host_environment
    from weft.node.engine.container.images import Builder, old_images

    builder = Builder(runtime(args.runtime or "auto"), host_environment(os.environ))
    removed, kept = [], {}
    for image in old_images(builder.images(), args.keep):
        problem = "" if args.dry_run else builder.remove(image)
        if problem:
            kept[image.name] = problem
        else:
            removed.append(image.name)
    if args.json:
        render.print_json({"removed": removed, "kept": kept, "dry_run": args.dry_run})
        return 0
    for name in removed:
        print(name)
    for name, why in kept.items():
        render.print_message(f"{name} stays: {why}")
    return 0
