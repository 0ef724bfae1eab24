"""The ledger of shared GPUs: sums never pass their bounds, and a release gives back what was charged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import PlanError
from weft.model import Share
from weft.scheduling.plugins import registry
from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.ledger import GpuLedger
from weft.scheduling.sharing.moves import MoveAllowance
from weft.scheduling.sharing.port import SharePlacement

PLACEMENTS = ["dilu", "exclusive", "infless-l", "infless-r", "holes", "dilu:splits=off", "holes:tries=3"]
GB = 1000


def replica(
    name: str, request: float, limit: float, memory_gb: int, service: str = "", kind: str = "inference"
) -> Demand:
    assert kind in ("inference", "llm")
    return Demand(name, "llm" if kind == "llm" else "inference", Share(request, limit), (memory_gb * GB,), service)


def training(name: str, request: float, limit: float, *memory_gb: int) -> Demand:
    return Demand(name, "training", Share(request, limit), tuple(each * GB for each in memory_gb))


def load(spec: str) -> SharePlacement:
    placement = registry.load_placement(spec)
    assert isinstance(placement, SharePlacement)
    return placement


def ledger_of(nodes: int = 4, gpus: int = 4) -> GpuLedger:
    return GpuLedger([[40 * GB] * gpus] * nodes)


def put(placement: SharePlacement, ledger: GpuLedger, *demands: Demand) -> list[list[int]]:
    """Place the demands one after the other; return the GPUs of each."""
    found = []
    for demand in demands:
        parts = placement.choose(demand, ledger)
        assert parts is not None
        ledger.hold(demand, parts)
        found.append([part.gpu for part in parts])
    return found


shares = st.tuples(st.integers(1, 20), st.integers(0, 10)).map(lambda both: (both[0] / 20, (both[0] + both[1]) / 20))
demands = st.one_of(
    st.tuples(st.just("inference"), shares, st.integers(1, 12).map(lambda gb: (gb,))),
    st.tuples(st.just("llm"), shares, st.integers(15, 40).map(lambda gb: (gb,))),
    st.tuples(st.just("training"), shares, st.lists(st.integers(5, 40), min_size=2, max_size=4).map(tuple)),
)
steps = st.lists(st.one_of(demands, st.integers(0, 30)), max_size=40)


def check(ledger: GpuLedger) -> None:
    """Compare the sums with the holders."""
    parts: dict[int, list[Part]] = {gpu: [] for gpu in range(len(ledger.memory_mb))}
    for held in ledger.parts.values():
        assert len({ledger.node_of[part.gpu] for part in held}) == 1
        for part in held:
            parts[part.gpu].append(part)
    for gpu, here in parts.items():
        assert ledger.request[gpu] == pytest.approx(sum(part.request for part in here))
        assert ledger.limit[gpu] == pytest.approx(sum(part.limit for part in here))
        assert ledger.free_mb[gpu] == ledger.memory_mb[gpu] - sum(part.memory_mb for part in here)
        assert ledger.request[gpu] <= 1 + 1e-9
        assert ledger.limit[gpu] <= ledger.oversubscription + 1e-9
        assert ledger.free_mb[gpu] >= 0
    assert ledger.active == sum(map(bool, parts.values()))
    assert [gpu for _, gpu in ledger.by_free] == sorted(
        (gpu for gpu in parts if parts[gpu]), key=lambda gpu: (ledger.free_mb[gpu], gpu)
    )


@pytest.mark.parametrize("spec", PLACEMENTS)
@settings(max_examples=25)
@given(steps=steps)
def test_no_gpu_is_overfull_and_an_empty_cluster_is_empty(
    spec: str, steps: list[tuple[str, tuple[float, float], tuple[int, ...]] | int]
) -> None:
    placement, ledger = load(spec), ledger_of(2)
    for at, step in enumerate(steps):
        if isinstance(step, int):
            if ledger.parts:
                ledger.release(sorted(ledger.parts)[step % len(ledger.parts)])
        else:
            kind, (request, limit), memory_gb = step
            share, memory_mb = Share(request, max(request, min(limit, 1.0))), tuple(gb * GB for gb in memory_gb)
            demand = Demand(f"i{at}", kind, share, memory_mb)  # type: ignore[arg-type]
            parts = placement.choose(demand, ledger)
            if parts is not None:
                ledger.hold(demand, parts)
                assert spec == "exclusive" or sum(part.memory_mb for part in parts) == sum(memory_mb)
        gangs = {name: held for name, held in ledger.parts.items() if ledger.demands[name].gang}
        moves = placement.improve(ledger, 4)
        assert len(moves) <= 4
        assert gangs == {name: held for name, held in ledger.parts.items() if ledger.demands[name].gang}
        check(ledger)
    for name in list(ledger.parts):
        ledger.release(name)
    assert (ledger.active, set(ledger.request), set(ledger.limit)) == (0, {0.0}, {0.0})
    assert ledger.free_mb == ledger.memory_mb


def test_the_ledger_refuses_what_does_not_fit() -> None:
    ledger = ledger_of(1, 1)
    ledger.hold(replica("a", 0.6, 1.0, 10), [Part(0, 0.6, 1.0, 10 * GB)])
    for part in (Part(0, 0.5, 0.5, GB), Part(0, 0.1, 0.6, GB), Part(0, 0.1, 0.1, 31 * GB)):
        with pytest.raises(PlanError, match="GPU 0 has no room for b"):
            ledger.hold(replica("b", 0.1, 0.1, 1), [part])
    with pytest.raises(PlanError, match="a holds GPUs already"):
        ledger.hold(replica("a", 0.1, 0.1, 1), [Part(0, 0.1, 0.1, GB)])
    with pytest.raises(PlanError, match="b holds no GPUs"):
        ledger.release("b")


def test_dilu_takes_the_fullest_gpu_that_has_room() -> None:
    """a and b do not fit together by request. c fits with both: a's GPU is fuller, 0.36 + 0.1 against 0.3 + 0.3."""
    put(dilu := load("dilu"), ledger := ledger_of(1, 2), replica("a", 0.6, 0.7, 10), replica("b", 0.5, 0.7, 30))
    assert put(dilu, ledger, replica("c", 0.2, 0.3, 5)) == [[1]]
    assert put(dilu, ledger, replica("d", 0.35, 0.5, 5)) == [[0]]


def test_dilu_slows_all_workers_of_a_training_job_alike() -> None:
    """s/0 shares a GPU with the gang. s/1 goes to another worker of it, although GPU 4 is fuller; t/0 does not."""
    dilu, ledger = load("dilu"), ledger_of(2)
    ledger.hold(training("gang", 0.4, 0.6, 20, 20), [Part(0, 0.4, 0.6, 20 * GB), Part(1, 0.4, 0.6, 20 * GB)])
    ledger.hold(replica("s/0", 0.2, 0.3, 5, "s"), [Part(0, 0.2, 0.3, 5 * GB)])
    ledger.hold(replica("other", 0.7, 0.8, 20), [Part(4, 0.7, 0.8, 20 * GB)])
    assert dilu.choose(replica("t/0", 0.2, 0.3, 5, "t"), ledger) == (Part(4, 0.2, 0.3, 5 * GB),)
    assert dilu.choose(replica("s/1", 0.2, 0.3, 5, "s"), ledger) == (Part(1, 0.2, 0.3, 5 * GB),)


def test_dilu_splits_a_language_model_and_releases_all_of_it() -> None:
    dilu, ledger = load("dilu"), ledger_of(2)
    put(dilu, ledger, training("gang", 0.4, 0.6, 30, 25))
    assert dilu.choose(replica("l", 0.5, 0.7, 21, kind="llm"), ledger) == (
        Part(0, 0.5, 0.7, 10 * GB),
        Part(1, 0.5, 0.7, 11 * GB),
    )
    put(dilu, ledger, replica("l", 0.5, 0.7, 21, kind="llm"))
    assert ledger.active == 2
    ledger.release("l")
    assert ledger.limit[:2] == [0.6, 0.6]
    assert put(load("infless-r"), ledger, replica("m", 0.5, 0.7, 21, kind="llm")) == [[2]]


def test_static_placements_charge_one_figure() -> None:
    """Two of request 0.4 and limit 0.6 share a GPU by request, not by limit; neither looks at the other figure."""
    pair = (replica("a", 0.4, 0.6, 5), replica("b", 0.4, 0.6, 5))
    assert put(load("infless-l"), ledger_of(), *pair) == [[0], [1]]
    assert put(load("infless-r"), ledger_of(), *pair) == [[0], [0]]
    assert put(load("exclusive"), ledger_of(), *pair) == [[0], [1]]


def test_a_gang_stays_on_one_node() -> None:
    for spec in PLACEMENTS:
        found = put(load(spec), ledger_of(2), training("a", 0.9, 1, 30, 30, 30), training("b", 0.9, 1, 30, 30))
        assert found == [[0, 1, 2], [4, 5]], spec


def test_workers_of_a_gang_may_need_different_memory() -> None:
    """35 and 39 GB: the larger worker takes the emptier GPU, whichever comes first."""
    for spec in ("dilu", "holes", "infless-r"):
        ledger = GpuLedger([[40 * GB] * 2])
        ledger.hold(replica("r", 0.2, 0.2, 4), [Part(0, 0.2, 0.2, 4 * GB)])
        assert put(load(spec), ledger, training("gang", 0.5, 0.9, 39, 35)) == [[1, 0]], spec


def test_holes_sends_a_gang_where_it_needs_the_fewest_unused_gpus() -> None:
    holes, ledger = load("holes"), ledger_of(2)
    ledger.hold(replica("a", 0.2, 0.2, 5), [Part(0, 0.2, 0.2, 5 * GB)])
    for gpu in (4, 5):
        ledger.hold(replica(f"b{gpu}", 0.2, 0.2, 5), [Part(gpu, 0.2, 0.2, 5 * GB)])
    assert put(holes, ledger, training("gang", 0.5, 0.8, 30, 30)) == [[4, 5]]


def test_holes_keeps_room_for_language_models() -> None:
    """Both GPUs hold 20 GB. On GPU 0 a language model no longer fits by request, so the replica costs nothing there."""
    holes, ledger = load("holes"), ledger_of(1)
    ledger.hold(training("busy", 0.65, 0.7, 20), [Part(0, 0.65, 0.7, 20 * GB)])
    ledger.hold(training("calm", 0.4, 0.5, 20), [Part(1, 0.4, 0.5, 20 * GB)])
    assert put(holes, ledger, replica("r", 0.2, 0.3, 5)) == [[0]]


def test_holes_moves_replicas_to_empty_a_gpu_and_never_a_gang() -> None:
    holes, ledger = load("holes"), ledger_of(2)
    ledger.hold(training("gang", 0.4, 0.5, 20, 20), [Part(0, 0.4, 0.5, 20 * GB), Part(1, 0.4, 0.5, 20 * GB)])
    ledger.hold(replica("alone", 0.3, 0.4, 8), [Part(4, 0.3, 0.4, 8 * GB)])
    (move,) = holes.improve(ledger, 4)
    assert (move.name, [part.gpu for part in move.source], [part.gpu for part in move.target]) == ("alone", [4], [0])
    assert (ledger.active, holes.improve(ledger, 4)) == (2, [])


def test_holes_moves_nothing_if_a_gpu_does_not_become_empty() -> None:
    holes, ledger = load("holes"), ledger_of(1)
    ledger.hold(training("gang", 0.7, 0.8, 20, 20), [Part(0, 0.7, 0.8, 20 * GB), Part(1, 0.7, 0.8, 20 * GB)])
    for name, request in (("fits", 0.2), ("not", 0.5)):
        ledger.hold(replica(name, request, request, 5), [Part(2, request, request, 5 * GB)])
    before = dict(ledger.parts)
    assert holes.improve(ledger, 4) == []
    assert ledger.parts == before


def test_an_allowance_bounds_the_average() -> None:
    allowance, made = MoveAllowance(0.25, kept=4), 0
    for _ in range(400):
        now = allowance.earn()
        allowance.spend(now)
        made += now
    assert made == 100
    for _ in range(400):
        now = allowance.earn()
    assert now == 4
