"""How a scheduler is set up: what `weft up` was told, kept so that it starts the same again by itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from weft.errors import InputError
from weft.inputs.atomic import write_atomic

FILE: Final = "settings.json"
HINT: Final = "weft up writes it anew; or remove it"
FOREIGN: Final = ("avoid", "share", "ignore")
MOST: Final = 1e12
DEFAULT_POLICY: Final = "priority:preempts=on"


@dataclass(frozen=True)
class Settings:
    policy: str = DEFAULT_POLICY
    placement: str = ""
    """Empty: the one that the policy brings along."""
    gpus: str = ""
    """Declared indices, such as 0,1; empty: those that the driver shows."""
    models: str = ""
    memories: str = ""
    foreign: Literal["avoid", "share", "ignore"] = "avoid"
    """What other people's processes on a GPU mean: avoid, share or ignore."""
    idle_s: float = 600.0
    """It ends by itself after so long with nothing queued or running; 0: never."""
    min_run_s: float = 60.0
    """A run is not preempted before it has lasted this long."""
    max_preemptions: int = 10
    """A job that was preempted this often is not preempted again."""
    keep_s: float = 30 * 86400.0
    """Ended jobs and their logs are forgotten after this long."""
    interval_s: float = 0.0
    """So long nothing new is planned after a plan; 0: whenever something happens, or as the policy has it."""
    lease_s: float = 600.0
    """In a cluster: so long a node may be cut off before its jobs run elsewhere."""
    margin_s: float = 0.0
    """In a cluster: so long after that shims have to end its runs; 0: what is safe on machines that are busy."""
    max_gpus_per_user: int = 0
    """In a cluster: GPUs that the jobs of one user may hold; 0: all there are."""
    max_queued_per_user: int = 0
    """In a cluster: jobs of one user that may wait or run; 0: any number."""


def load(state: Path) -> Settings:
    path = state / FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(path, f"cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(path, "not a JSON object")
    given = {}
    for field in fields(Settings):
        if field.name in found:
            given[field.name] = value = found[field.name]
            expected = _expected(field.name, value, field.default)
            if expected:
                raise _wrong(path, f"{field.name} is {json.dumps(value)[:80]}, not {expected}")
    return Settings(**given)


def _expected(key: str, value: object, usual: object) -> str:
    """What it must be, where it is not; keys that are not known may be a later Weft's."""
    if key == "foreign":
        return "" if value in FOREIGN else " or ".join(FOREIGN)
    if isinstance(usual, str):
        return "" if isinstance(value, str) else "text"
    kinds = (int,) if isinstance(usual, int) else (int, float)
    fits = isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < MOST
    return "" if fits else f"a {'whole ' if kinds == (int,) else ''}number from 0 to {MOST:,.0f}"


def _wrong(path: Path, what: str) -> InputError:
    return InputError(what, where=str(path), hint=HINT)


def save(state: Path, settings: Settings) -> None:
    write_atomic(state / FILE, json.dumps(asdict(settings), indent=2).encode())


def changed(settings: Settings, **given: Any) -> Settings:
    """With what is given; None: as it was."""
    return replace(settings, **{key: value for key, value in given.items() if value is not None})
