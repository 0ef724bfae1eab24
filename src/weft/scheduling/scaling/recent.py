"""The rule that deficit and concurrency share: out at once, in by the most that was wanted for a while."""

from __future__ import annotations

from weft.scheduling.scaling.port import Load, Wish, ceil_replicas


def out_now_in_later(
    wants: tuple[int, ...], want: float, load: Load, keep: int, why: str, remain: int = 0
) -> tuple[tuple[int, ...], Wish]:
    """Return the recent wants with this one, and the wish: more at once, fewer once `keep` seconds wanted fewer.

    At least `remain` of the present replicas remain.
    """
    wanted = ceil_replicas(want)
    wants = (*wants, wanted)[-keep:]
    if wanted > load.replicas:
        return wants, Wish(wanted, why)
    most = max(wants)
    if len(wants) == keep and max(most, remain) < load.replicas:
        if most < remain:
            return wants, Wish(remain, f"{why}; {remain} for the mean rate")
        return wants, Wish(most, f"{why}; at most {most} in {keep} s")
    return wants, Wish(load.replicas, why)
