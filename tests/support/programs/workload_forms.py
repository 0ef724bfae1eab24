"""One rank of several training runs, one after the other: `workload_forms.py FOLDER`. Rank 0 prints a report.

Each form trains two steps without a break; those of `BROKEN` also with a break after the first. At the end each rank
says what it says without data.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path

from weft.errors import InputError
from weft_workloads.settings import read_settings
from weft_workloads.training import loop

WHOLE = (("ddp", "gpt2"), ("fsdp", "gpt2"))
BROKEN = (("pipeline", "llama2-7b"), ("ddp", "a2c"), ("fsdp", "resnet18"))
PATIENCE_S = 250


def train(**params: str) -> list[float]:
    found = loop.run(read_settings({"size": "tiny", "evaluate_every": "1000000", **params}))
    return [found.loss, *found.evaluation.values()]


def main(folder: Path) -> None:
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    report = {}
    for form, model in (*WHOLE, *BROKEN):
        given = {"model": model, "parallel": form, "batch_size": "8"}
        broken = str(folder / f"{form}-{model}")
        whole = train(**given, steps="2", checkpoints=f"{broken}-whole")
        report[f"{form} {model}"] = {"whole": whole}
        if (form, model) in BROKEN:
            train(**given, steps="1", checkpoints=broken)
            report[f"{form} {model}"]["resumed"] = train(**given, steps="2", checkpoints=broken)
    try:
        train(model="resnet18", parallel="ddp", steps="1", data="/nowhere/imagenet")
    except InputError as error:
        print(f"bad input: {error}", flush=True)
    except SystemExit as exit_:
        print(f"exit with {exit_.code}", flush=True)
    if os.environ["RANK"] == "0":
        print(f"report {json.dumps(report)}", flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
