"""The flags of `weft sweep` that make trials, and the trials that they make."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from weft.cli import flags
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.access.sweeps.parameters import Row

T = TypeVar("T")
DEFAULT_SEED: Final = 0
RULES: Final = ("asha", "halving")


def add_parameters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--grid", metavar="NAME=VALUES", action="append", help="all combinations of values: lr=0.1,0.01 or seed=1..5")
    add("--list", metavar="NAME=VALUES", action="append", help="the first values of all lists, then the second ones")
    add(
        "--random", metavar="NAME=DIST", action="append",
        help="drawn values: log:1e-5..1e-1, 0..0.5, int:1..8 or a,b,c; needs --trials",
    )  # fmt: skip
    add("--trials", metavar="N", type=flags.whole_number(1, 1_000_000), help="how often --random draws")
    add("--seed", metavar="N", type=flags.whole_number(), default=DEFAULT_SEED, help="the seed of --random (0)")
    add("--from", dest="from_file", metavar="FILE", help="trials of a file: CSV with a header; YAML, a list or a grid")
    add("--allow-unused", action="store_true", help="the program may read WEFT_PARAM_NAME instead of {NAME}")
    add("--max-parallel", metavar="N", type=flags.whole_number(1, 1_000_000), help="at most N trials run at once")


def add_early_stopping(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--stop", choices=RULES, help="stop trials early that do worse than others at the same step")
    add("--stop-by", metavar="METRIC", help="the metric that --stop compares (loss)")
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--min", action="store_true", help="a smaller metric is better (default)")
    goal.add_argument("--max", action="store_true", help="a larger metric is better")
    add("--stop-first", metavar="STEP", type=flags.whole_number(1), help="the first step at which to compare (10)")
    add(
        "--stop-factor", metavar="N", type=flags.whole_number(2, 1000),
        help="one of N trials continues; compare again after N times the steps (3)",
    )  # fmt: skip


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the parameters of each trial. Errors name the flag."""
    from weft.access.sweeps import parameters
    from weft.access.sweeps.parameter_files import read_parameters

    forms: list[Sequence[Row]] = []
    if args.from_file:
        forms.append(read_parameters(args.from_file))
    if args.list:
        lists = [_parse("--list", text, _values) for text in args.list]
        forms.append(_parse("--list", lists, parameters.paired))
    if args.random:
        forms.append(_draws(args))
    elif args.trials is not None:
        raise InputError("--trials without --random", hint="add --random NAME=LOW..HIGH, or leave out --trials")
    forms += parameters.grid([_parse("--grid", text, _values) for text in args.grid or ()])
    if not forms:
        raise InputError(
            "no parameters to sweep", hint="give some: --grid lr=0.1,0.01, --list, --random or --from FILE"
        )
    return parameters.combine(forms)


def _draws(args: argparse.Namespace) -> list[Row]:
    from weft.access.sweeps.parameters import MAX_TRIALS, draw, paired, parse_assignment

    if args.trials is None:
        raise InputError("--random without --trials", hint="say how many trials to draw, such as --trials 20")
    if args.trials > MAX_TRIALS:
        raise InputError(f"--trials {args.trials:,}: at most {MAX_TRIALS:,} are allowed")

    def drawn(text: str) -> tuple[str, list[str]]:
        name, values = parse_assignment(text)
        return name, draw(name, values, args.trials, args.seed)

    pairs = [_parse("--random", text, drawn) for text in args.random]
    return _parse("--random", pairs, paired)


def _values(text: str) -> tuple[str, list[str]]:
    from weft.access.sweeps.parameters import parse_assignment, parse_values

    name, values = parse_assignment(text)
    return name, parse_values(values)


S = TypeVar("S")


def _parse(flag: str, value: S, parse: Callable[[S], T]) -> T:
    try:
        return parse(value)
    except InputError as error:
        raise InputError(f"{flag}: {error.text}", where=error.where, hint=error.hint) from None


def rule_of(args: argparse.Namespace) -> str:
    """Return the rule of early stopping as jobs carry it; empty: none."""
    if args.stop is None:
        given = [flag for flag in ("stop_by", "stop_first", "stop_factor") if getattr(args, flag) is not None]
        given += [flag for flag in ("min", "max") if getattr(args, flag)]
        if given:
            hint = "add --stop asha or --stop halving"
            raise InputError(f"--{given[0].replace('_', '-')} without --stop", hint=hint)
        return ""
    from weft.access.sweeps.early_stop import DEFAULT_FACTOR, DEFAULT_FIRST, Rule, parse_rule
    from weft.access.sweeps.results import USUAL_METRIC

    metric, goal = args.stop_by or USUAL_METRIC, "max" if args.max else "min"
    rule = Rule(args.stop, metric, goal, args.stop_first or DEFAULT_FIRST, args.stop_factor or DEFAULT_FACTOR)
    return str(_parse("--stop-by", str(rule), parse_rule))
