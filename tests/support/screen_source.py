"""A source of changes for tests of the screen: whatever a test sends, and a record of what the screen asked for."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from weft.tui.sources.base import Link, Outcome, Receive
from weft.views.answers.changes import ChangesView, CountsView, EventView
from weft.views.answers.explain import AheadView, ExplainView, ReasonView, UnblockView
from weft.views.answers.forecasts import ForecastView
from weft.views.answers.jobs import JobDetailView, JobView, ProgressView, RunView
from weft.views.answers.nodes import GpuView, NodeView
from weft.views.answers.services import ReplicaView, ServiceView
from weft.views.answers.weaves import WeaveMemberView, WeaveView

NOW = 1_800_000_000.0
NAMES = ("resnet50-bs256", "bert-large", "vit-b16", "llama2-7b-sft", "diffusion", "a2c-pong", "gpt2-ablation")
USERS = ("ada", "grace", "linus", "barbara")

FORECAST = ForecastView(
    at="2027-01-15T08:00:00.000Z", samples=30,
    start_p50="2027-01-15T10:00:00.000Z", start_p90="2027-01-15T11:00:00.000Z",
    end_p50="2027-01-15T12:00:00.000Z", end_p90="2027-01-15T13:00:00.000Z", basis="similar", similar=4,
)  # fmt: skip


class ScreenSource:
    """Plays the scheduler."""

    simulated = False

    def __init__(self, title: str = "gpu1:50051") -> None:
        self.title = title
        self.asked: list[tuple[str, tuple[str, ...], dict[str, str]]] = []
        self.details: dict[str, JobDetailView] = {}
        self.refused: list[tuple[str, str]] = []
        self.log = b"epoch 1 loss 0.51\nepoch 2 loss 0.42\n"
        self.is_following: set[str] = set()
        self.may_forecast = threading.Event()
        """Forecasts wait for it, as a real one takes seconds."""
        self.may_forecast.set()
        self._receive: Receive = lambda _: None

    def start(self, receive: Receive) -> None:
        self._receive = receive

    def stop(self) -> None: ...

    def send(self, *news: ChangesView | Link) -> None:
        for each in news:
            self._receive(each)

    def job(self, job: str) -> JobDetailView:
        return self.details.get(job) or JobDetailView(id=job, name=f"job-{job}", status="waiting", state="PD")

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:
        if forecast:
            assert self.may_forecast.wait(60)
        reasons = [ReasonView("Resources", "needs 8 GPUs on one node; no node has more than 3 free")]
        return ExplainView(
            job=job, name="waiting-job", status="waiting", reasons=reasons, position=3, waiting=12,
            ahead=[AheadView("7", "ada", 8), AheadView("9", "grace", 2)], unblock=UnblockView(["5"], in_s=600.0),
            expected_start="2027-01-15T09:10:00.000Z", forecast=FORECAST if forecast else None,
        )  # fmt: skip

    def change(self, verb: str, jobs: Sequence[str], settings: dict[str, str]) -> Outcome:
        self.asked.append((verb, tuple(jobs), settings))
        refused = {job for job, _ in self.refused}
        return Outcome([job for job in jobs if job not in refused], [each for each in self.refused if each[0] in jobs])

    def follow_log(self, job: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        self.is_following.add(job)
        receive(self.log)
        return lambda: self.is_following.discard(job)


def cluster(nodes: int, gpus: int, waiting: int, *, seed: int = 1, usage: bool = True) -> list[ChangesView]:
    """Return the first messages about a cluster with jobs on most of its GPUs."""
    draw = random.Random(seed)
    jobs: list[JobView] = []
    cells: list[GpuView] = []
    for node in range(1, nodes + 1):
        free = list(range(gpus))
        while free:
            count = min(draw.choice((1, 1, 2, 4, 8)), len(free))
            mine, free = free[:count], free[count:]
            held = draw.random() < 0.85
            number = str(len(jobs) + 1)
            if held:
                jobs.append(running(number, f"n{node}", mine, draw))
            for gpu in mine:
                used_mb, utilisation = (
                    (draw.randrange(2000, 40000), float(draw.randrange(30, 100))) if held else (3, 0.0)
                )
                cells.append(
                    GpuView(
                        node=f"n{node}", gpu=gpu, model="A100-40G", memory_mb=40960, jobs=[number] if held else [],
                        reserved_mb=draw.randrange(2000, 40000) if held else 0, used_mb=used_mb if usage else None,
                        utilisation=utilisation if usage else None,
                    )
                )  # fmt: skip
    first = len(jobs) + 1
    jobs += [pending(str(first + at), draw) for at in range(waiting)]
    jobs += [ended(str(first + waiting + at), draw) for at in range(12)]
    busy = sum(bool(cell.jobs) for cell in cells)
    counts = CountsView(first - 1, waiting, 4321, "muri-l", {})
    rows = [
        NodeView(
            node=f"n{node}", alive=True, gpus=gpus, busy=busy // nodes, jobs=5, cpus=64, cpus_used=37, ram_mb=524288,
            ram_used_mb=180000, state="connected", beat_s=0.7, load=31.2, address="10.0.0.1", port=0, version="1",
            closed=["Drained"] if node == 2 else [],
        )
        for node in range(1, nodes + 1)
    ]  # fmt: skip
    happened = [EventView(NOW - 60 + at, *each) for at, each in enumerate(EVENTS)]
    order = [str(first + at) for at in range(min(waiting, 200))]
    head = ChangesView(now=NOW, reset=True, counts=counts, nodes=rows, services=SERVICES, weaves=WEAVES, order=order)
    pages = [ChangesView(now=NOW, jobs=jobs[at : at + 100]) for at in range(0, len(jobs), 100)]
    return [head, ChangesView(now=NOW, gpus=cells), *pages, ChangesView(now=NOW, events=happened)]


def running(number: str, node: str, gpus: list[int], draw: random.Random) -> JobView:
    total = draw.randrange(1000, 90000)
    metrics = {"loss": round(draw.random(), 4), "accuracy": round(draw.random(), 3)}
    progress = ProgressView(draw.randrange(total), total, draw.random() * 20000, metrics, source="job")
    return JobView(
        id=number, name=f"{draw.choice(NAMES)}-{draw.randrange(9)}", user=draw.choice(USERS), state="R",
        status="running", time_s=draw.random() * 9000, gpus=len(gpus), run=1,
        place=f"{node}[{','.join(map(str, gpus))}]", submitted="2027-01-15T07:30:00.000Z",
        started="2027-01-15T07:40:00.000Z", progress=progress,
    )  # fmt: skip


def pending(number: str, draw: random.Random) -> JobView:
    return JobView(
        id=number, name=f"{draw.choice(NAMES)}-{draw.randrange(9)}", user=draw.choice(USERS), state="PD",
        status="waiting", time_s=draw.random() * 5000, gpus=draw.choice((1, 2, 4, 8, 16)),
        reason=draw.choice(("Resources", "Priority", "Priority")), priority=draw.choice((0, 0, 0, 10)),
        submitted="2027-01-15T07:30:00.000Z",
    )  # fmt: skip


def ended(number: str, draw: random.Random) -> JobView:
    state, status, code = draw.choice((("CD", "done", 0), ("F", "failed", 1), ("CA", "cancelled", 143)))
    return JobView(
        id=number, name=f"{draw.choice(NAMES)}-{draw.randrange(9)}", user=draw.choice(USERS), state=state,
        status=status, time_s=draw.random() * 5000, gpus=1, exit_code=code, run=1, submitted="2027-01-15T06:30:00.000Z",
        started="2027-01-15T06:40:00.000Z", ended=f"2027-01-15T07:{draw.randrange(10, 59)}:00.000Z",
    )  # fmt: skip


def detail(job: JobView) -> JobDetailView:
    losses = [2.0 * 0.97**step + 0.1 * ((step * 7919) % 13) / 13 for step in range(100)]
    return JobDetailView(
        **vars(job), command=["python", "train.py", "--model", "resnet50", "--lr", "0.1", "--data", "/data/imagenet"],
        chdir="/data/ada/vision", params={"lr": "0.1", "seed": "3"}, memory_mb=20000, measured_mb=17311, failures=1,
        preemptions=2, gpu_seconds=77_123.0,
        series={"loss": losses, "accuracy": [1 - loss / 2.2 for loss in losses]},
        runs=[
            RunView(1, NOW - 9000, NOW - 8000, "n3[0,1]", "stopped", None, "preempted"),
            RunView(2, NOW - 7000, NOW - 6000, "n1[4,5]", "failed", 1, ""),
            RunView(3, NOW - 5000, None, "n2[0,1]"),
        ],
    )  # fmt: skip


SERVICES = [
    ServiceView(
        name="chat", user="ada", ready=3, wanted=4, min_replicas=1, max_replicas=8, scaler="deficit", rate=112.4,
        in_flight=37, queued=4, slo_s=0.5, why="4 replicas for 112 requests/s", capacity=31.0, url="http://127.0.0.1:8000/chat",
        waiting_for="1 replica waits for a GPU with 16 GB",
        replicas=[
            ReplicaView("101", 0, 2, "ready", True, "10.0.0.1:9000", "n1[0]"),
            ReplicaView("102", 1, 2, "ready", True, "10.0.0.2:9000", "n2[0]"),
            ReplicaView("103", 2, 2, "ready", True, "10.0.0.2:9001", "n2[1]"), ReplicaView("104", 3, 2, "waiting"),
        ],
    ),
    ServiceView(name="embed", user="grace", ready=1, wanted=1, scaler="fixed", rate=8.1, in_flight=1),
]  # fmt: skip
WEAVES = [
    WeaveView(
        weave="12-1", gpus="n1[0,1]", order="fair", since="2027-01-15T07:55:00.000Z",
        members=[
            WeaveMemberView("12", "gpt2-ablation", "ada", 1, 0, 0.93),
            WeaveMemberView("13", "vit-b16", "grace", 1, 1, 0.88),
        ],
    )
]  # fmt: skip
EVENTS = [
    ("Submitted", "41", "", "llama2-7b-sft of ada is submitted: 8 GPUs"),
    ("Start", "12", "", "run 1 starts on n1[0,1], woven with 13"),
    ("Exited", "9", "", "run 2 is done"),
    ("Stop", "10", "", "run 1 stops: preempted"),
    ("Exited", "11", "", "run 1 is failed with code 1"),
    ("NodeJoined", "", "n4", "joined with 8 GPUs"),
    ("Cordoned", "", "n2", "cordoned: Drained"),
]
