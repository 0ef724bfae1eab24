"""`python -m clusters SEED` plays one world and tells all that happens; `FIRST-LAST` plays many and counts."""

from __future__ import annotations

import sys
from time import process_time

from clusters.world import play

if __name__ == "__main__":
    first, _, last = sys.argv[1].partition("-")
    if not last:
        play(int(first), print)
        sys.exit()
    began, bad = process_time(), []
    for seed in range(int(first), int(last) + 1):
        try:
            play(seed)
        except Exception as error:
            bad.append(seed)
            print(seed, type(error).__name__, str(error)[:300])
    count = int(last) - int(first) + 1
    print(f"{len(bad)} of {count} worlds failed: {bad[:20]}; {1000 * (process_time() - began) / count:.1f} ms each")
