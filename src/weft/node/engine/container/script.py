"""Commands that run a module of this package for a run, in a bare Python."""

from __future__ import annotations

import os
import sys
from typing import Final

SOURCE: Final = os.path.realpath(f"{__file__}/../../../../..")
_CODE: Final = (
    "import sys; sys.path.append(sys.argv[1]); from weft.node.engine.container.{0} import main; "
    "sys.exit(main(sys.argv[2]))"
)


def script(name: str, run_dir: str) -> tuple[str, ...]:
    """Return the command that runs `main` of a module with the directory of a run."""
    return (sys.executable, "-I", "-S", "-X", "utf8", "-c", _CODE.format(name), SOURCE, run_dir)
