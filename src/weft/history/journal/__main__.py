"""Work on a journal in a low-priority process: `python -m weft.history.journal compact|backup|history URL`."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from weft.history.journal import Store, store_at
from weft.history.journal.codec import encode_line
from weft.history.journal.summary import public_summary

EXIT_TRY_LATER: Final = 75
NICENESS: Final = 10
PR_SET_PDEATHSIG: Final = 1


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m weft.history.journal")
    parser.add_argument("verb", choices=("compact", "backup", "history"))
    parser.add_argument("url")
    given = parser.parse_args(words)
    os.nice(NICENESS)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # die with the scheduler
    store = store_at(given.url)
    if given.verb == "compact":
        return 0 if store.compact() else EXIT_TRY_LATER
    if given.verb == "backup":
        store.backup()
        return 0
    return _print_history(store)


def _print_history(store: Store) -> int:
    """Print the history without what is private, one fact per line. End quietly if no reader is left."""
    with store.open(readonly=True) as journal:
        try:
            sys.stdout.writelines(f"{encode_line(fact)}\n" for fact in public_summary(journal.read()))
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # the interpreter would try to flush again
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
