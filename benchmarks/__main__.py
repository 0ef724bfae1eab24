"""`python -m benchmarks [NAME...]`: runs the benchmarks and reports which goals were missed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks import (
    agents,
    commands,
    comparison,
    decisions,
    forecast,
    hostile,
    local_runs,
    memory,
    muri_traces,
    philly,
    pools,
    postgres,
    queue,
    replay,
    restart,
    router,
    scale,
    screen,
    services,
    serving,
    short_jobs,
    submit,
    train,
    weave,
    web,
    workspace,
    yardstick,
)
from benchmarks.figure import Figure
from benchmarks.sharing import figures as sharing

ALL: dict[str, Callable[[], Iterator[Figure]]] = {
    "muri": muri_traces.figures,
    "philly": philly.figures,
    "yardstick": yardstick.figures,
    "replay": replay.figures,
    "queue": queue.figures,
    "decisions": decisions.figures,
    "growth": philly.growth,
    "compare": comparison.figures,
    "runs": local_runs.figures,
    "jobs": short_jobs.figures,
    "restart": restart.figures,
    "serving": serving.figures,
    "commands": commands.figures,
    "train": train.figures,
    "weave": weave.figures,
    "submit": submit.figures,
    "workspace": workspace.figures,
    "pools": pools.figures,
    "postgres": postgres.figures,
    "agents": agents.figures,
    "scale": scale.figures,
    "memory": memory.figures,
    "hostile": hostile.figures,
    "router": router.figures,
    "services": services.figures,
    "scaler": services.scaler,
    "screen": screen.figures,
    "web": web.figures,
    "sharing": sharing.figures,
    "forecast": forecast.figures,
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"unknown benchmark: {', '.join(unknown)}; known: {', '.join(ALL)}", file=sys.stderr)
        return 2
    missed = []
    for name in names or ALL:
        print(name)
        for figure in ALL[name]():
            print(figure.line(), flush=True)
            if figure.met is False:
                missed.append(figure.what)
    print(f"missed: {'; '.join(missed)}" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
