"""All studies on a folder of Dilu's data (ASPLOS'25), next to the figures that it publishes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.errors import InputError
from weft.lab.report.study_pictures import Line, draw_colocation, draw_scaling, draw_sharing
from weft.lab.study.bound import bound_gpus
from weft.lab.study.colocation import MIN_NODES, PLACEMENTS, Hardware, check_sizes, pack_instances
from weft.lab.study.growth_search import search_inference
from weft.lab.study.instances import read_instances
from weft.lab.study.scaling import RATE_SCALERS, STREAM_SCALERS, ScalerFigures, compare_scalers, load_scalers
from weft.lab.study.sharing import Pair, share_gpus

if TYPE_CHECKING:
    from weft.lab.report.pictures import Picture
    from weft.sim.serving.grid import LatencyGrid

SEEDS: Final = (1, 2, 3, 4)
TIMES: Final = (10.0, 25.0)
SLOS_S: Final = {"resnet152": 0.04, "roberta_large": 0.06, "gpt2_large": 0.06, "llama2": 0.042, "bert_base": 0.05}
PICKS: Final = {"resnet152": "30 %, 16", "roberta_large": "20 %, 4", "gpt2_large": "30 %, 4", "llama2": "50 %, 8"}
PEAKS: Final = {
    100: {"exclusive": 132, "infless-l": 116, "infless-r": 80, "dilu": 82},
    800: {"exclusive": 693, "infless-l": 639, "infless-r": 520, "dilu": 499},
    3200: {"exclusive": 1879, "infless-l": 1719, "infless-r": 1357, "dilu": 1322},
}
"""Most GPUs in use, as Dilu's own code counts them."""
PATTERNS: Final = (
    ("instances-*.txt",), ("rps_*.txt", "bursty.txt", "periodic.txt", "sporadic.txt"), ("azure_llm_*.csv",),
    ("a100_*.csv", "bs_sm_*.csv"),
)  # fmt: skip
"""Names of the files of each kind: instances, request rates, streams, and profiles of models."""
SERVED: Final = "roberta_large"
"""The model of the scaling study."""


class DiluRow(NamedTuple):
    study: str
    workload: str
    rule: str
    figure: str
    value: float | str
    published: float | str | None = None


class DiluFigures(NamedTuple):
    rows: list[DiluRow]
    pictures: list[Picture]


def count_studies(folder: Path) -> int:
    """Return how many figures `run_folder` yields."""
    counts = [len(paths) for paths in _data_files(folder)]
    return sum(counts) + bool(counts[-1]) + (len(TIMES) * 2 - 1) * counts[1]


def run_folder(folder: Path) -> Iterator[DiluFigures]:
    """Run each study for which the folder has files; yield its figures."""
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), hint="give a folder with files of Dilu's repository")
    instances, rates, streams, profiles = _data_files(folder)
    if not (instances or rates or streams or profiles):
        hint = f"expected {', '.join(name for names in PATTERNS for name in names)}, plain or gzip, at any depth"
        raise InputError("no file of Dilu's data", where=str(folder), hint=hint)
    grids = {path: _read_grid(path) for path in profiles}
    for path in sorted(instances, key=lambda path: (len(path.name), path.name)):
        yield _pack(path)
    for path in rates:
        yield from _scale(path, grids)
    for path in streams:
        yield _stream(path)
    for path, grid in grids.items():
        yield _profile(path, grid)
    if grids:
        yield _share(grids)


def _data_files(folder: Path) -> list[list[Path]]:
    """Return the files of each kind in the folder and below it, but not in hidden folders."""
    files = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(root, name) for name in sorted(names)]
    return [
        [path for path in files if any(fnmatch(path.name.removesuffix(".gz"), pattern) for pattern in patterns)]
        for patterns in PATTERNS
    ]


def _model(path: Path) -> str:
    return _name(path).removeprefix("a100_").removeprefix("bs_sm_")


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0]


def _read_grid(path: Path) -> LatencyGrid:
    from weft.sim.serving.grid import read_grid

    return read_grid(str(path))


def _pack(path: Path) -> DiluFigures:
    events = read_instances(str(path))
    instances = sum(event.starts for event in events)
    hardware = Hardware(max(MIN_NODES, instances))
    check_sizes(events, hardware, str(path))
    packings = [pack_instances(spec, events, hardware) for spec in PLACEMENTS]
    bound = bound_gpus(events, hardware.gpu_mb, 1.5)
    name, published = _name(path), PEAKS.get(instances, {})
    rows = [
        DiluRow("colocation", name, each.placement, "peak GPUs", each.peak_gpus, published.get(each.placement))
        for each in packings
    ]
    rows.append(DiluRow("colocation", name, "lower bound", "peak GPUs", bound.gpus))
    lines = [Line(each.placement, each.times_s, each.gpus) for each in packings]
    return DiluFigures(rows, _named(name, draw_colocation(lines, bound.gpus)))


def _scale(path: Path, grids: dict[Path, LatencyGrid]) -> Iterator[DiluFigures]:
    from weft.sim.serving.arrivals import from_rps, read_rps
    from weft.sim.serving.grid import example_grid
    from weft.sim.serving.service import SimulatedService

    grid = next((grid for file, grid in grids.items() if SERVED in file.name), None) or example_grid()
    rates, scalers = read_rps(str(path)), load_scalers(RATE_SCALERS)
    for times in TIMES:
        workloads = [from_rps(rates, times, seed) for seed in SEEDS]
        for burst in (False, True):
            service = SimulatedService(grid=grid, profiled=grid.capacity(8, 0.3), burst=burst)
            results = compare_scalers(service, scalers, workloads)
            name = f"{_name(path)} x{times:g}{' burst' if burst else ''}"
            rows = _scaler_rows("scaling", name, results)
            yield DiluFigures(rows, _named(name.replace(" ", "-"), _draw(results)))


def _stream(path: Path) -> DiluFigures:
    from weft.sim.serving.arrivals import read_llm_trace
    from weft.sim.serving.service import SimulatedService

    work = read_llm_trace(str(path))
    tokens = work.tokens or [1]
    service = SimulatedService(slo_s=1.0, cold_start_s=30.0)
    mean_s = service.token_s * sum(max(each, 1) for each in tokens) / len(tokens)
    service = SimulatedService(slo_s=1.0, cold_start_s=30.0, throughput=service.slots / mean_s)
    results = compare_scalers(service, load_scalers(STREAM_SCALERS), [work])
    return DiluFigures(_scaler_rows("streams", _name(path), results), _named(_name(path), _draw(results)))


def _scaler_rows(study: str, name: str, results: list[ScalerFigures]) -> list[DiluRow]:
    rows = []
    for each in results:
        rows.append(DiluRow(study, name, each.scaler, "late %", round(100 * each.mean("violations"), 3)))
        rows.append(DiluRow(study, name, each.scaler, "replica-s", round(each.mean("replica_s"), 1)))
    return rows


def _draw(results: list[ScalerFigures]) -> Iterator[Picture]:
    from weft.sim.serving.run import LATENCY_STEP_S

    first = [(each.scaler, each.runs[0]) for each in results]
    steps = [at * LATENCY_STEP_S for at in range(len(first[0][1].p95s_s))]
    return draw_scaling(
        Line("requests", first[0][1].times_s, first[0][1].rates),
        [Line(name, run.times_s, run.replicas) for name, run in first],
        [Line(name, steps, run.p95s_s) for name, run in first],
    )


def _profile(path: Path, grid: LatencyGrid) -> DiluFigures:
    model = _model(path)
    slo_s = SLOS_S.get(model, 0.1)
    pick = search_inference(grid.seconds, grid.shares, grid.batches, slo_s)
    name = f"{model} at {1000 * slo_s:g} ms"
    share = f"{100 * pick.best.share:g} %, {pick.best.batch}"
    rows = [DiluRow("profile", name, "hybrid growth", "share, batch", share, PICKS.get(model))]
    return DiluFigures([*rows, DiluRow("profile", name, "hybrid growth", "points", len(pick.trials))], [])


def _share(grids: dict[Path, LatencyGrid]) -> DiluFigures:
    from weft.model import Share

    pairs = []
    for path, grid in grids.items():
        model = _model(path)
        best = search_inference(grid.seconds, grid.shares, grid.batches, SLOS_S.get(model, 0.1)).best
        share = Share(best.share, min(1.0, 2 * best.share))
        pairs.append(Pair(model, grid, share, 2 * SLOS_S.get(model, 0.1), best.batch, "bert", Share(0.3, 0.9)))
    rows = []
    found = share_gpus(pairs, 0.5, 1)
    for each in found:
        name = f"{each.service} + {each.training}"
        rows.append(DiluRow("sharing", name, each.mode, "p95 ms", round(1000 * each.p95_s, 2)))
        rows.append(DiluRow("sharing", name, each.mode, "training %", round(100 * each.training_speed, 1)))
    bars = [(f"{each.service} + {each.training}", each.mode, each.p95_s, each.training_speed) for each in found]
    return DiluFigures(rows, _named("pairs", draw_sharing(bars)))


def _named(prefix: str, pictures: Iterator[Picture]) -> list[Picture]:
    """Put the name of the workload before the name of each picture."""
    return [picture._replace(name=f"{prefix}-{picture.name}") for picture in pictures]
