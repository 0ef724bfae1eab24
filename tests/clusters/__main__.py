"""`python -m clusters SEED` plays one world and tells all that happens; `FIRST-LAST` plays many and counts those that
fail; `FIRST-LAST mutants` counts how many notice each rule that is broken on purpose. `weaves` after it: with jobs that
are woven."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import process_time

from clusters.mutants import MUTANTS, WEAVE_MUTANTS, catching
from clusters.world import play


def count(seeds: Sequence[int], *, weaves: bool, services: bool, pair: bool) -> None:
    began, bad = process_time(), []
    for seed in seeds:
        try:
            play(seed, weaves=weaves, services=services, pair=pair)
        except Exception as error:
            bad.append(seed)
            print(seed, type(error).__name__, str(error)[:300], flush=True)
    each_ms = 1000 * (process_time() - began) / len(seeds)
    print(f"{len(bad)} of {len(seeds)} worlds failed: {bad[:20]}; {each_ms:.1f} ms of CPU each")


def main(which: str, *rest: str) -> None:
    first, _, last = which.partition("-")
    if not last:
        play(int(first), print, weaves="weaves" in rest, services="services" in rest, pair="pair" in rest)
        return
    seeds = range(int(first), int(last) + 1)
    if "mutants" not in rest:
        count(seeds, weaves="weaves" in rest, services="services" in rest, pair="pair" in rest)
        return
    for mutant in WEAVE_MUTANTS if "weaves" in rest else MUTANTS:
        print(f"{mutant.__name__:26} {len(list(catching(mutant, seeds)))} of {len(seeds)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
