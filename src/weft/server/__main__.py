"""`python -m weft.server`: the scheduler of one machine (`local_main`). `weft server` runs `cluster_main`."""

from __future__ import annotations

import sys

from weft.server.local_main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
