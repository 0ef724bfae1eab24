"""The command: `python -m weft_workloads --model NAME [--size tiny] [--steps N] ...`, `serve` and `make-data`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from weft.errors import InputError, UnknownName
from weft_workloads.catalogue import MODELS
from weft_workloads.installed import missing
from weft_workloads.settings import BAD_INPUT, NAMES, TABLE, read_settings

DATASETS: Final = ("imagenet", "wikitext")
UNINSTALLED: Final = 1
METAVARS: Final = {
    "size": "SIZE", "dataset": "NAME", "data": "PATH", "optimizer": "NAME", "parallel": "FORM", "deterministic": "yes",
    "checkpoints": "DIR",
}  # fmt: skip
"""Placeholders of the help for values that are not numbers."""


def main(words: Sequence[str] | None = None) -> int:
    """Train, serve, or generate data. Return the exit code."""
    given = list(sys.argv[1:] if words is None else words)
    try:
        if given[:1] == ["make-data"]:
            return _make_data(given[1:])
        if given[:1] == ["serve"]:
            return _serve(given[1:])
        return _train(given)
    except InputError as error:
        rank = os.environ.get("RANK", "0")
        print(f"weft_workloads{f' (rank {rank})' if rank != '0' else ''}: {error}", file=sys.stderr, flush=True)
        return BAD_INPUT


def _train(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="weft_workloads", allow_abbrev=False, argument_default=argparse.SUPPRESS,
        description="Train a model, or make small data with: weft_workloads make-data imagenet|wikitext PATH.",
        epilog=f"models: {', '.join(MODELS)}",
    )  # fmt: skip
    parser.add_argument("--model", metavar="NAME", help="the model to train")
    for setting in TABLE:
        default = f" (default: {setting.default})" if setting.default else ""
        option, metavar = f"--{setting.name.replace('_', '-')}", METAVARS.get(setting.name, "N")
        parser.add_argument(option, metavar=metavar, help=f"{setting.meaning}{default}")
    read, unknown = parser.parse_known_args(words)
    if unknown:
        known = [f"--{name.replace('_', '-')}" for name in ("model", *NAMES)]
        raise UnknownName("option", unknown[0][:80], known)
    found = read_settings(vars(read))
    if text := missing(found.model.name):
        what, _, remedy = text.partition("\n")
        print(f"weft_workloads: {what}\n  {remedy}", file=sys.stderr, flush=True)
        return UNINSTALLED
    from weft_workloads.training.loop import run

    run(found)
    return 0


def _serve(words: list[str]) -> int:
    from weft_workloads.serving import command

    args = command.read_arguments(words)
    if text := "" if command.check_model(args.model) == command.LLM else missing(args.model, ["torch"]):
        what, _, remedy = text.partition("\n")
        print(f"weft_workloads: {what}\n  {remedy}", file=sys.stderr, flush=True)
        return UNINSTALLED
    return command.run(args)


def _make_data(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="weft_workloads make-data", description="Write small data of a known layout.")
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    read = parser.parse_args(words)
    from weft_workloads.data.generated import make

    make(read.dataset, read.path, read.seed)
    print(f"wrote {read.dataset} to {read.path}")
    return 0


def exit_now(code: int) -> NoReturn:
    """End the process at once: threads of a process group may abort while the interpreter ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start() -> NoReturn:
    """Run the command as the program of this process."""
    try:
        code = main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    exit_now(code)
