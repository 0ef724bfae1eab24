"""The flags for uncertainty in a simulation, and their fields in the JSON output."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Final

from weft.cli import flags
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.sim.faults.uncertainty import Uncertainty

HOUR_S: Final = 3600.0
DEFAULT_RETRIES: Final = 3
"""The default for jobs without retries in the trace, if runs crash."""
MAX_RETRIES: Final = 1_000_000
HOURS_RANGE: Final = (1e-3, 1e8)
LOAD_RANGE: Final = (1e-6, 1e6)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("uncertainty, drawn by --seed")
    group.add_argument(
        "--estimates", metavar="E", type=_estimates, default="exact",
        help="durations that policies see: exact, lognormal:SIGMA, or unknown: learned as jobs finish (exact)",
    )  # fmt: skip
    group.add_argument("--mtbf", metavar="HOURS", type=_hours, help="mean time between failures of a node")
    group.add_argument("--repair", metavar="HOURS", type=_hours, help="mean time to repair a node (default: 1)")
    group.add_argument("--crash-rate", metavar="P", type=_probability, help="probability that a run crashes")
    group.add_argument(
        "--retries",
        metavar="N",
        type=flags.whole_number(0, MAX_RETRIES),
        help=f"retries of a job that crashes, if the trace does not give them ({DEFAULT_RETRIES})",
    )
    group.add_argument(
        "--load", metavar="X", type=load, default=1.0, help="make arrivals X times as dense as in the trace (1)"
    )


def check(args: argparse.Namespace) -> None:
    """Reject flags that have no effect without another."""
    if args.repair is not None and args.mtbf is None:
        raise InputError("--repair needs --mtbf HOURS", hint="without --mtbf, nodes do not fail")
    if args.retries is not None and args.crash_rate is None:
        raise InputError("--retries needs --crash-rate P", hint="without --crash-rate, runs do not crash")


def uncertainty(args: argparse.Namespace) -> Uncertainty:
    from weft.sim.faults.uncertainty import DEFAULT_REPAIR_S, Uncertainty

    mtbf_s = None if args.mtbf is None else args.mtbf * HOUR_S
    repair_s = DEFAULT_REPAIR_S if args.repair is None else args.repair * HOUR_S
    return Uncertainty(args.estimates, mtbf_s, repair_s, args.crash_rate or 0.0)


def retries(args: argparse.Namespace) -> int:
    """Return the retries of jobs for which the trace gives none."""
    if args.retries is not None:
        return int(args.retries)
    return DEFAULT_RETRIES if args.crash_rate else 0


def json_field(args: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Return `{"uncertainty": {...}}` with the flags that differ from their defaults, or an empty dict."""
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
    return _within(text, *LOAD_RANGE, "a load")


def _hours(text: str) -> float:
    return _within(text, *HOURS_RANGE, "hours,")


def _probability(text: str) -> float:
    return _within(text, 0.0, 1.0, "a probability")


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
