"""Checks of jobs that run on the machine of the client."""

from __future__ import annotations

import os
from collections.abc import Sequence

from weft.access.wire.messages import JobSpec
from weft.errors import InputError


def check_outputs(specs: Sequence[JobSpec], chdir: str) -> None:
    """Raise InputError if the folder of an output file is not there. A job that waits for others may get it from them.

    `chdir`: the working directory of jobs that name none.
    """
    for index, spec in enumerate(specs):
        for key in ("output", "error"):
            path = getattr(spec, key)
            folder = os.path.dirname(os.path.join(chdir, spec.chdir, path))
            if path and not spec.after and "%" not in folder and not os.path.isdir(folder):
                raise InputError(
                    f"there is no folder {folder} for {path}", key=key, index=index, hint="create it first"
                )
