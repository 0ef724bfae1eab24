"""Variants of a training, each in forked processes: python training_variants.py JSON. One import of torch serves all.

A variant has `ranks`, `words` for `plain_training`, and `env`. With WEFT_STAGES=auto there, it uses Weft's hooks. The
last lines of the ranks are printed as a JSON list of lists.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

import torch._dynamo  # noqa: F401  the optimizers import it; imported here, forked ranks share it
from plain_training import main  # type: ignore[import-not-found]

from weft import train


def run(variant: dict[str, Any]) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    readers, children = [], []
    for rank in range(variant["ranks"]):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(writer, 1)
            os.environ.update(variant["env"], RANK=str(rank), WORLD_SIZE=str(variant["ranks"]))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            if os.environ.get("WEFT_STAGES") == "auto":
                train.auto()
            code = 1
            try:
                main(variant["words"])
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(writer)
        readers.append(reader)
        children.append(pid)
    found = []
    for reader, child in zip(readers, children, strict=True):
        with os.fdopen(reader) as lines:
            found.append(lines.read().strip().rpartition("\n")[2])
        assert os.waitpid(child, 0)[1] == 0, variant
    return found


if __name__ == "__main__":
    print(json.dumps([run(each) for each in json.loads(sys.argv[1])]))
