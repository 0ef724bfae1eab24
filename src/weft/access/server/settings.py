"""The settings of a server. They are saved, so that it starts again with the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from weft.errors import InputError
from weft.inputs.atomic import write_atomic

FILE: Final = "settings.json"
HINT: Final = "run weft up again to rewrite it, or remove it"
FOREIGN_CHOICES: Final = ("avoid", "share", "ignore")
MAX_NUMBER: Final = 1e12
DEFAULT_POLICY: Final = "priority:preempts=on"
CLUSTER_POLICY: Final = "balanced"


@dataclass(frozen=True)
class Settings:
    policy: str = DEFAULT_POLICY
    placement: str = ""
    """Empty: the default placement of the policy."""
    gpus: str = ""
    """Declared GPU indices, such as 0,1; empty: those that the driver lists."""
    gpus_declared_by: str = ""
    """`workspace`: Weft declared the GPUs for a workspace, and a workspace with a larger gpu_count adds to them."""
    models: str = ""
    memories: str = ""
    foreign: Literal["avoid", "share", "ignore"] = "avoid"
    """The treatment of a GPU that has processes of others: avoid, share or ignore."""
    shared: str = ""
    """The folder of the shared GPU ledger; `off`: none; empty: the one of WEFT_SHARED or the config file, if any."""
    idle_s: float = 600.0
    """Seconds without queued or running jobs after which the server ends; 0: never."""
    min_run_s: float = 60.0
    """Seconds that a run lasts before it can be preempted."""
    max_preemptions: int = 10
    """Preemptions after which a job is not preempted again."""
    keep_s: float = 30 * 86400.0
    """Seconds after which ended jobs and their logs are purged."""
    interval_s: float = 0.0
    """Seconds between two plans; 0: plan at every event, or as the policy asks."""
    lease_s: float = 600.0
    """In a cluster: seconds without contact after which the jobs of a node run elsewhere."""
    replica_lease_s: float = 10.0
    """In a cluster: seconds without contact after which replicas of a node get substitutes; at least two heartbeats."""
    margin_s: float = 0.0
    """In a cluster: seconds that shims have to end runs after the lease; 0: a default that suits busy machines."""
    max_gpus_per_user: int = 0
    """In a cluster: GPUs that the jobs of one user may hold; 0: no limit."""
    max_queued_per_user: int = 0
    """In a cluster: jobs of one user that may wait or run; 0: no limit."""
    max_cpu_per_user: float = 0.25
    """In a cluster: what the requests of one user may take of the server's core on average; 0: no limit."""


def load(state: Path) -> Settings:
    path = state / FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(path, f"cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise _invalid(path, "not a JSON object")
    given = {}
    for field in fields(Settings):
        if field.name in found:
            given[field.name] = value = found[field.name]
            expected = _expected(field.name, value, field.default)
            if expected:
                raise _invalid(path, f"{field.name} is {json.dumps(value)[:80]}, not {expected}")
    return Settings(**given)


def _expected(key: str, value: object, default: object) -> str:
    """Return what the value must be, or an empty text if it is valid."""
    if key == "foreign":
        return "" if value in FOREIGN_CHOICES else " or ".join(FOREIGN_CHOICES)
    if isinstance(default, str):
        return "" if isinstance(value, str) else "text"
    kinds = (int,) if isinstance(default, int) else (int, float)
    fits = isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER
    return "" if fits else f"a {'whole ' if kinds == (int,) else ''}number from 0 to {MAX_NUMBER:,.0f}"


def _invalid(path: Path, what: str) -> InputError:
    return InputError(what, where=str(path), hint=HINT)


def save(state: Path, settings: Settings) -> Path:
    """Save the settings, and return their file."""
    write_atomic(state / FILE, json.dumps(asdict(settings), indent=2).encode())
    return state / FILE


def changed(settings: Settings, **given: Any) -> Settings:
    """Return the settings with the given values; None keeps the old value."""
    return replace(settings, **{key: value for key, value in given.items() if value is not None})


def saved_settings(folder: Path) -> Settings:
    """Return the settings of the last cluster server in this folder, or the defaults."""
    return load(folder) if (folder / FILE).exists() else Settings(policy=CLUSTER_POLICY, idle_s=0.0)
