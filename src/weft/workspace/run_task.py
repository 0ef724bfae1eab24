"""The program of a task's job: `python -I -S run_task.py SETTING=VALUE... -- COMMAND...`. See `task.keeper`.

Queued jobs name this file by its path, so it stays where it is."""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from weft.workspace.task.keeper import main

    sys.exit(main(sys.argv[1:]))
