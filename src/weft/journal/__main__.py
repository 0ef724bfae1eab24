"""Journal maintenance in a low-priority process: `python -m weft.journal compact|backup URL`."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from weft.journal import store_at

EXIT_TRY_LATER: Final = 75
NICENESS: Final = 10
PR_SET_PDEATHSIG: Final = 1


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m weft.journal")
    parser.add_argument("verb", choices=("compact", "backup"))
    parser.add_argument("url")
    given = parser.parse_args(words)
    os.nice(NICENESS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # die with the scheduler
    store = store_at(given.url)
    if given.verb == "compact":
        return 0 if store.compact() else EXIT_TRY_LATER
    store.backup()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
