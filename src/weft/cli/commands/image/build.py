"""Build the image of a folder with a Containerfile, and print its tag: the name of the folder, and a hash of all that
the image is made from.

The same content twice is built once."""

from __future__ import annotations

import argparse
import os
from typing import Final

from weft.cli import render
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft image build .
  weft image build trainer --name team/trainer --build-arg TORCH=2.13.0
  weft run --image $(weft image build .) -- python train.py"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder with the Containerfile and its files")
    parser.add_argument("--file", "-f", metavar="FILE", default="", help="the Containerfile, if it has another name")
    parser.add_argument("--name", "-t", metavar="NAME", default="", help="name of the image (that of the folder)")
    parser.add_argument("--build-arg", metavar="NAME=VALUE", action="append", default=[], help="argument of the build")
    parser.add_argument("--dry-run", action="store_true", help="print the tag without building")
    parser.add_argument("--force", action="store_true", help="build again, also if the content is the same")
    parser.add_argument("--runtime", metavar="NAME", default="", help="podman or docker (the first that works)")


def run(args: argparse.Namespace) -> int:
    from weft.access.jobspec.readers import runtime
    from weft.node.engine.container.detection import host_environment
    from weft.node.engine.container.images import build_once, find_containerfile, tag_of

    if ":" in args.name:
        raise InputError("--name: the tag is a hash of the content", hint="give a name without a colon")
    if args.dry_run:
        print(tag_of(args.folder, find_containerfile(args.folder, args.file), args.build_arg, args.name)[0])
        return 0
    found = build_once(
        args.folder, find_containerfile(args.folder, args.file), args.build_arg, name=args.name, force=args.force,
        runtime=runtime(args.runtime or "auto"), env=host_environment(os.environ),
    )  # fmt: skip
    if args.json:
        render.print_json({"image": found.tag, "built": found.is_new, "runtime": found.runtime})
    else:
        if not found.is_new:
            render.print_message(f"{found.tag} is built already")
        print(found.tag)
    return 0
