"""Services next to training in a simulation: every policy, the file of services, shares, waiting replicas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.state_checks import check
from weft.errors import InputError, UnknownName
from weft.lab.compare.services_file import read_services
from weft.model import WHOLE, Gpu, Job, Move, Node, PerRank, Resized, Share, Start
from weft.scheduling.core.explain_services import explain_service
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry
from weft.sim.clusters.reader import read_cluster
from weft.sim.faults.uncertainty import Uncertainty
from weft.sim.serving.occupancy import measure_occupancy
from weft.sim.serving.workload import ServiceWorkload
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.generator import small
from weft.sim.traces.trace import TraceJob

FILE = """services:
  - service: chat
    share: 0.3/0.6
    memory: 6G
    replicas: {min: 0, max: 6}
    requests: {rate: 90, variation: 2, duration: 5m}
  - service: images
    gpus: 2
    replicas: {min: 1, max: 3}
    scale: {by: lazy, window: 20}
    requests: {rate: 150, duration: 5m}
"""


def services(folder: Path, text: str = FILE) -> list[ServiceWorkload]:
    (folder / "services.yaml").write_text(text)
    return read_services(str(folder / "services.yaml"), seed=1)


def one(folder: Path, body: str) -> ServiceWorkload:
    return services(folder, f"services:\n  - service: a\n{body}")[0]


@pytest.mark.parametrize("policy", sorted(registry.registered_plugins("weft.policies")))
def test_every_policy_works_beside_services(tmp_path: Path, policy: str) -> None:
    jobs, beside = small().jobs[:60], services(tmp_path)
    outcome = simulate(Setting(read_cluster("4x8"), jobs, policy, services=beside))
    assert all(outcome.state.jobs[each.job.id].status == "done" for each in jobs)
    assert {name: found.requests for name, found in outcome.services.items()} == {
        each.service.name: len(each.arrivals.times_s) for each in beside
    }
    assert not outcome.state.services.by_name, "services end with their last request"
    replayed = State()
    for fact in outcome.journal.read():
        replayed.apply(fact)
    check(replayed)
    assert {job.id: job.status for job in replayed.jobs.values()} == {
        job.id: job.status for job in outcome.state.jobs.values()
    }


def test_dilu_slows_all_workers_of_a_training_job_alike(tmp_path: Path) -> None:
    """The gang joins the first replica on GPU 0. Best fit alone would put the second there too: it is the fullest."""
    text = """services:
  - service: a
    share: 0.1/0.2
    memory: 1G
    replicas: {min: 1, max: 2}
    scale: {by: deficit, throughput: 10}
    requests: {rate: 30, duration: 1m}
"""
    gang = Job("gang", 2, declared_s=300.0, share=Share(0.4, 0.6), memory_mb=PerRank(10_000))
    cluster, jobs = [Node("n0", (Gpu(memory_mb=40_960),) * 4)], [TraceJob(0.0, gang, 300.0)]
    second = {}
    for placement in ("dilu", "infless-r"):
        found = simulate(Setting(cluster, jobs, "fifo", placement, services=services(tmp_path, text)))
        begun = {fact.job: fact.slots[0][1] for fact in found.journal.read() if isinstance(fact, Start)}
        assert (begun["gang"], begun["a.0"]) == ((0, 1), (0,))
        second[placement] = begun["a.1"]
    assert second == {"dilu": (1,), "infless-r": (0,)}


def test_moves_empty_gpus_without_a_late_request_more(tmp_path: Path) -> None:
    """Training keeps replicas apart; when it has ended, `holes` brings them together."""
    text = "services:\n" + "".join(
        f"  - service: s{at}\n    share: 0.2/0.3\n    memory: 5G\n    replicas: {{min: 1, max: 4}}\n"
        f"    requests: {{rate: {10 + 5 * at}, variation: 2, duration: 8m}}\n"
        for at in range(8)
    )
    cluster = [Node(f"n{at}", (Gpu(memory_mb=40_960),) * 4) for at in range(2)]
    shared = Share(0.6, 0.9)
    jobs = [
        TraceJob(20.0 * at, Job(f"j{at}", 1, declared_s=120.0, share=shared, memory_mb=PerRank(30_000)), 120.0)
        for at in range(8)
    ]
    beside = services(tmp_path, text)
    still, moved = (
        simulate(Setting(cluster, jobs, "srsf", f"holes:moves_per_minute={most}", services=beside)) for most in (0, 2)
    )
    assert still.occupancy is not None
    assert moved.occupancy is not None
    assert still.occupancy.moves == 0 < moved.occupancy.moves
    assert moved.occupancy.mean_gpus < still.occupancy.mean_gpus - 0.2, "moves free GPUs"
    late = [sum(found.late for found in outcome.services.values()) for outcome in (still, moved)]
    assert late[1] <= late[0], "and cost no request"
    begun = [fact.at for fact in moved.journal.read() if isinstance(fact, Move)]
    assert all(later - first >= 60 for first, later in zip(begun, begun[2:], strict=False))
    replayed = State()
    for fact in moved.journal.read():
        replayed.apply(fact)
    check(replayed)


def test_the_same_seed_gives_the_same_journal(tmp_path: Path) -> None:
    setting = Setting(read_cluster("2x8"), small().jobs[:30], "srtf", services=services(tmp_path))
    assert list(simulate(setting).journal.read()) == list(simulate(setting).journal.read())


def test_replicas_on_lost_nodes_are_replaced(tmp_path: Path) -> None:
    uncertainty = Uncertainty(mtbf_s=100.0, repair_s=60.0)
    setting = Setting(
        read_cluster("4x8"), small().jobs[:20], "srtf", services=services(tmp_path), uncertainty=uncertainty
    )
    outcome = simulate(setting)
    assert outcome.services["images"].cold_starts > 1
    assert outcome.services["images"].requests == len(setting.services[1].arrivals.times_s)


def training(job: str, work_s: float, share: Share = WHOLE) -> TraceJob:
    return TraceJob(0.0, Job(job, 1, declared_s=work_s, share=share, memory_mb=PerRank(1000)), work_s)


def test_training_with_a_share_gives_way_to_replicas(tmp_path: Path) -> None:
    beside = one(tmp_path, "    share: 0.4/0.6\n    memory: 1G\n    requests: {rate: 5, duration: 100s}\n")
    node = [Node("n0", (Gpu(memory_mb=8000),))]
    alone = simulate(Setting(node, [training("j", 100.0, Share(0.5, 0.8))], "fifo"))
    shared = simulate(Setting(node, [training("j", 100.0, Share(0.5, 0.8))], "fifo", services=[beside]))
    starts = {fact.job: fact.slots for fact in shared.journal.read() if isinstance(fact, Start)}
    assert len(set(starts.values())) == 1, "they share the GPU"
    first, second = (outcome.state.jobs["j"].ended_at for outcome in (alone, shared))
    assert first is not None
    assert second is not None
    assert first == pytest.approx(100.0, rel=0.05)
    assert second == pytest.approx(100 + 100 * (1 - 0.6 / 0.8), rel=0.05), "0.6 of the GPU instead of 0.8 for 100 s"


def test_a_waiting_replica_is_explained(tmp_path: Path) -> None:
    beside = one(tmp_path, "    gpus: 2\n    replicas: {min: 3, max: 3}\n    requests: {rate: 5, duration: 10m}\n")
    node = [Node("n0", (Gpu(),) * 4)]
    outcome = simulate(Setting(node, [training("j", 5000.0)], "fifo", services=[beside]), until=100.0)
    found = explain_service(outcome.scheduler, "a")
    assert (found.wanted, found.ready, len(found.waiting)) == (3, 1 if found.ready == 1 else 2, 3 - found.ready)
    assert dict(found.holders)["replicas of a"] == 2 * found.ready
    text = "\n".join(found.lines())
    assert "no node has 2 GPUs free" in text
    assert "held by" in text
    with pytest.raises(UnknownName, match="unknown service 'b'"):
        explain_service(outcome.scheduler, "b")


def test_a_resize_carries_its_inputs(tmp_path: Path) -> None:
    outcome = simulate(Setting(read_cluster("2x8"), (), "fifo", services=services(tmp_path)))
    resized = [fact for fact in outcome.journal.read() if isinstance(fact, Resized) and fact.service == "chat"]
    assert resized
    assert all(dict(fact.inputs).keys() >= {"arrivals", "queued", "capacity"} and fact.why for fact in resized)


def test_occupancy_counts_what_runs_requested(tmp_path: Path) -> None:
    beside = one(
        tmp_path,
        "    share: 0.25\n    memory: 2000M\n    replicas: {min: 2, max: 2}\n    requests: {rate: 5, duration: 100s}\n",
    )
    outcome = simulate(Setting([Node("n0", (Gpu(memory_mb=8000),) * 2)], (), "fifo", services=[beside]))
    found = measure_occupancy(outcome.journal.read())
    assert found.peak_gpus == 1, "both replicas share a GPU"
    assert found.mean_compute_fragmentation == pytest.approx(0.5, abs=0.01)
    assert found.mean_memory_fragmentation == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    share: 0.6/0.3\n", ":3: the request 0.6 is over the limit 0.3"),
        ("    slo: 250\n", ":3: bad services[0].slo: 250"),
        ("    slo: 1ms\n", "no batch meets 1 ms"),
        ("    scale: {by: lazi}\n", ":3: unknown scaler 'lazi'"),
        ("    scale: {by: lazy, windw: 3}\n", ":3: unknown option of lazy 'windw'"),
        ("    replicas: {min: 4, max: 2}\n", ":3: min 4 is over max 2"),
        ("    memory: lots\n", ":3: 'lots' is not a size"),
        ("    color: red\n", ":3: unknown key of a service 'color'"),
        ("    concurrency: 0\n", ":3: bad services[0].concurrency"),
        ("    health: {fails: 0}\n", ":3: bad services[0].health.fails"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        one(tmp_path, f"{body}    requests: {{rate: 5, duration: 1m}}\n")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ("{rate: -5, duration: 1m}", "expected a number above 0"),
        ("{duration: 1m}", "requests need one source"),
        ("{rate: 5, times: 3}", "times does not go with rate"),
        ("{rps: nowhere.txt}", "nowhere.txt"),
    ],
)
def test_errors_in_requests_name_the_line(tmp_path: Path, requests: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        one(tmp_path, f"    requests: {requests}\n")
    assert words in str(error.value)


def test_a_file_for_deployment_can_be_simulated(tmp_path: Path) -> None:
    text = """services:
  - service: chat
    run: python serve.py
    share: {request: 0.3, limit: 0.6}
    replicas: {min: 0, max: 8, to_zero_after: 30s}
    scale: {by: deficit, throughput: 48, target: 0.7}
    slo: 250ms
    health: {path: /healthz, start_within: 60s, every: 2s, fails: 5}
    timeouts: {queue: 10s, answer: 20s, idle: 30s, drain: 5s}
    requests: {rate: 1, duration: 1m}
"""
    service = services(tmp_path, text)[0].service
    assert service.template.share == Share(0.3, 0.6)
    assert service.scale.scaler == "deficit:target=0.7"
    assert (service.scale.min_replicas, service.scale.max_replicas, service.scale.to_zero_after_s) == (0, 8, 30.0)
    assert (service.health.path, service.health.fails, service.timeouts.drain_s) == ("/healthz", 5, 5.0)
    assert json.dumps(service.slo_s) == "0.25"
