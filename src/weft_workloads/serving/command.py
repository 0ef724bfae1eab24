"""`python -m weft_workloads serve --model NAME [--size tiny] [--batch N]`: one replica."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from weft import serve as replica
from weft.errors import InputError
from weft_workloads.catalogue import SIZES, Model, find_model

SERVED: Final = ("resnet152", "vgg19", "bert-base", "roberta-large", "gpt2", "gpt2-large")
LLM: Final = "tiny-llm"
MAX_BATCH: Final = 1024


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="weft_workloads serve", allow_abbrev=False,
        description=f"Answer requests with a model of random weights: {', '.join((*SERVED, LLM))}.",
    )  # fmt: skip
    parser.add_argument("--model", required=True, metavar="NAME")
    parser.add_argument("--size", choices=SIZES, help="default: full with a GPU, else tiny")
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="requests in a batch at most (default: 8)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the weights (default: 0)")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: those of torch)")
    parser.add_argument("--host", default=replica.host(), help="default: WEFT_HOST, or 127.0.0.1")
    parser.add_argument("--port", type=int, default=replica.port(), help="default: WEFT_PORT, or 8000")
    return parser.parse_args(words)


def check_model(name: str) -> str:
    """Return the full name of a model that can be served. Raise InputError for another."""
    if name == LLM:
        return name
    found = find_model(name).name
    if found not in SERVED:
        raise InputError(f"no server for {found}", hint=f"use one of {', '.join((*SERVED, LLM))}")
    return found


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM."""
    name = check_model(args.model)
    if not 1 <= args.batch <= MAX_BATCH:
        raise InputError(f"a batch of {args.batch}", hint=f"from 1 to {MAX_BATCH}")
    if name == LLM:
        from weft_workloads.serving import llm

        llm.run(args)
        return 0
    from weft_workloads.serving.http_server import serve

    application = Application(find_model(name), args)
    serve(args.host, args.port, application, replica.ready)
    application.batcher.close()
    return 0


class Application:
    """A torch model behind a batcher. Batches are marked: training on the same GPU gives way."""

    def __init__(self, model: Model, args: argparse.Namespace) -> None:
        import torch

        from weft_workloads.serving.batcher import Batcher
        from weft_workloads.serving.served_models import load

        if args.threads:
            torch.set_num_threads(args.threads)
        has_gpu = torch.cuda.is_available()
        tiny = args.size == "tiny" or (args.size is None and not has_gpu)
        self._torch, self.model = torch, load(model, tiny, args.seed)
        if has_gpu:
            self.model.device = torch.device("cuda")
            self.model.module.to("cuda")
        print(
            f"serving {model.name}, {'tiny' if tiny else 'full'} size, on a {'GPU' if has_gpu else 'CPU'}", flush=True
        )
        self.batcher = Batcher(self._run, args.batch)

    def submit(self, request: Mapping[str, Any]) -> Future[Any]:
        return self.batcher.submit(self.model.read(request))

    def stats(self) -> dict[str, Any]:
        batcher = self.batcher
        return {"requests": batcher.requests, "batches": batcher.batches, "wait_s": batcher.wait.seconds}

    def _run(self, samples: list[Any]) -> list[Any]:
        with replica.batch(), self._torch.inference_mode():
            return self.model.run(samples)
