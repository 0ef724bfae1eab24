"""The flags of what is uncertain in a simulation, and what a JSON object says of them."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any, Final

from weft.cli import flags
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.sim.faults.uncertainty import Uncertainty

HOUR_S: Final = 3600.0
RETRIES: Final = 3
"""Of jobs that do not say, where runs crash."""
MAX_RETRIES: Final = 1_000_000
HOURS: Final = (1e-3, 1e8)
LOADS: Final = (1e-6, 1e6)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("uncertainty, drawn by --seed")
    group.add_argument(
        "--estimates", metavar="E", type=_estimates, default="exact",
        help="what policies know of durations: exact, lognormal:SIGMA, or unknown: learned as jobs finish (exact)",
    )  # fmt: skip
    group.add_argument("--mtbf", metavar="HOURS", type=_hours, help="mean time between failures of a node")
    group.add_argument("--repair", metavar="HOURS", type=_hours, help="mean time to repair one (default: 1)")
    group.add_argument("--crash-rate", metavar="P", type=_chance, help="the chance of each run to crash")
    group.add_argument(
        "--retries",
        metavar="N",
        type=flags.whole(0, MAX_RETRIES),
        help=f"of a job that crashes, where the trace does not say ({RETRIES})",
    )
    group.add_argument(
        "--load", metavar="X", type=load, default=1.0, help="arrivals X times as dense as in the trace (1)"
    )


def check(args: argparse.Namespace) -> None:
    """Flags that say nothing without another."""
    if args.repair is not None and args.mtbf is None:
        raise InputError("--repair needs --mtbf HOURS", hint="nodes that do not fail need no repair")
    if args.retries is not None and args.crash_rate is None:
        raise InputError("--retries needs --crash-rate P", hint="runs that do not crash are not tried again")


def uncertainty(args: argparse.Namespace) -> Uncertainty:
    from weft.sim.faults.uncertainty import REPAIR_S, Uncertainty

    mtbf_s = None if args.mtbf is None else args.mtbf * HOUR_S
    repair_s = REPAIR_S if args.repair is None else args.repair * HOUR_S
    return Uncertainty(args.estimates, mtbf_s, repair_s, args.crash_rate or 0.0)


def retries(args: argparse.Namespace) -> int:
    """Of jobs that do not say."""
    if args.retries is not None:
        return int(args.retries)
    return RETRIES if args.crash_rate else 0


def head(args: argparse.Namespace) -> dict[str, Any]:
    """`{"uncertainty": {...}}` with what is not as usual; nothing where all is."""
    values = {
        "estimates": None if args.estimates == "exact" else args.estimates,
        "mtbf_h": args.mtbf,
        "repair_h": 1.0 if args.mtbf is not None and args.repair is None else args.repair,
        "crash_rate": args.crash_rate or None,
        "retries": retries(args) if args.crash_rate else None,
        "load": None if args.load == 1 else args.load,
    }
    given = {key: value for key, value in values.items() if value is not None}
    return {"uncertainty": given} if given else {}


def load(text: str) -> float:
    return _within(text, *LOADS, "a load, 1 being as it is,")


def _hours(text: str) -> float:
    return _within(text, *HOURS, "hours,")


def _chance(text: str) -> float:
    return _within(text, 0.0, 1.0, "a chance")


def _within(text: str, low: float, high: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"expected {what} from {low:g} to {high:g}, found {text[:80]!r}")
    return value


def _estimates(text: str) -> str:
    from weft.sim.faults.estimates import parse_sigma

    try:
        parse_sigma(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(f"{error.hint}; found {text[:80]!r}") from None
    return text
