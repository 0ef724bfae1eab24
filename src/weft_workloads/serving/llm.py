"""An OpenAI-compatible replica: llama.cpp, through the package xllamacpp, with random weights."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
import urllib.request
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from weft import serve as replica
from weft.errors import InputError
from weft_workloads.serving import random_gguf

DRAIN_S: Final = 60.0
POLL_S: Final = 0.05
IDLE_POLLS: Final = 4
"""In a row: a request that waits gets its slot a moment after the one before has ended."""


def run(args: argparse.Namespace) -> None:
    """Serve until SIGTERM, then until no slot generates."""
    missing = [name for name in ("xllamacpp", "gguf") if find_spec(name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} is not installed", hint="pip install 'weft[llm]' on the node")
    xllamacpp: Any = import_module("xllamacpp")  # it has no types
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    server = xllamacpp.Server(parameters(xllamacpp, args))
    print(f"listening at {server.listening_address}", flush=True)
    replica.ready()
    while not stopped.wait(1.0):  # a signal handler of Python runs between two waits
        pass
    until, idle = time.monotonic() + DRAIN_S, 0
    while time.monotonic() < until and idle < IDLE_POLLS:
        idle = 0 if is_busy(args.host, args.port) else idle + 1
        time.sleep(POLL_S)
    os._exit(0)  # threads of llama.cpp hold the interpreter otherwise


def parameters(xllamacpp: Any, args: argparse.Namespace) -> Any:
    found = xllamacpp.CommonParams()
    found.model.path = str(random_gguf.cached(args.seed))
    found.model_alias = {random_gguf.NAME}
    found.hostnames, found.port = [args.host], args.port
    found.n_parallel, found.n_ctx, found.n_predict = args.batch, random_gguf.CONTEXT * args.batch, 512
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = args.threads or 1
    found.endpoint_slots, found.ui, found.warmup = True, False, False
    return found


def is_busy(host: str, port: int) -> bool:
    """Return whether a slot generates; False if the server does not answer."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/slots", timeout=5) as answer:
            return any(slot.get("is_processing") for slot in json.load(answer))
    except (OSError, ValueError):
        return False
