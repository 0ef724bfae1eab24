"""Traces written and read again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model import ANYWHERE, WHOLE, Job, PerRank, Profile, Share, Where
from weft.sim.traces.generator import generate, small
from weft.sim.traces.profiles import KNOWN, UNMEASURED, iteration_s, profile, start_s
from weft.sim.traces.trace import Trace, TraceJob, read_trace
from weft.sim.traces.writers import WRITERS, losses, to_bytes

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "muri"
TEXT = st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" "), max_size=12).map(str.strip)
SECONDS = st.floats(0, 1e9, allow_subnormal=False).map(lambda value: 0.0 if value < 1e-6 else value)
LENGTHS = st.floats(1e-3, 1e9)
COUNTS = st.integers(0, 10**9)


SHARES = st.just(WHOLE) | st.builds(lambda a, b: Share(*sorted((a, b))), *[st.floats(1e-3, 1)] * 2)
NAMES = st.text('abn019+=/{[," é', min_size=1, max_size=5)


@st.composite
def wheres(draw: st.DrawFn, gpus: int) -> Where:
    labels = draw(st.dictionaries(NAMES, NAMES | st.just(""), max_size=3))
    cut = draw(st.integers(0, gpus))
    first, second = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
    slots = ((first, tuple(range(cut))), (second, tuple(range(gpus - cut))))
    pinned = draw(st.sampled_from([(), tuple((node, held) for node, held in slots if held)]))
    where = Where(draw(TEXT), tuple(sorted(labels.items())), pinned)
    return ANYWHERE if where == ANYWHERE else where


@st.composite
def weft_jobs(draw: st.DrawFn) -> TraceJob:
    gpus, model = draw(st.integers(1, 64)), draw(st.sampled_from((*KNOWN, "none")))
    measured, declared_s = UNMEASURED if model == "none" else profile(model, gpus), draw(LENGTHS)
    iterations = draw(st.none() | st.integers(1, 10**9)) if model != "none" else None
    work_s = draw(LENGTHS | st.just(declared_s))
    memory_mb = draw(COUNTS | st.lists(COUNTS, min_size=gpus, max_size=gpus).map(tuple)) if gpus > 1 else draw(COUNTS)
    where = draw(wheres(gpus))
    job = Job(
        id="",
        gpus=gpus,
        name=draw(TEXT),
        user=draw(TEXT),
        memory_mb=PerRank.parse(memory_mb),
        cpus=draw(COUNTS),
        ram_mb=draw(COUNTS),
        share=draw(SHARES),
        where=where,
        priority=draw(st.integers(-(10**9), 10**9)),
        opportunistic=draw(st.booleans()),
        retries=draw(st.integers(0, 9)),
        declared_s=declared_s,
        iterations=iterations,
        profile=measured,
    )
    return TraceJob(draw(SECONDS), job, work_s if iterations is None else iterations * measured.iteration_s)


def numbered(jobs: list[TraceJob]) -> Trace:
    jobs.sort(key=lambda each: each.submit_s)
    return Trace("t", "weft", tuple(replace(e, job=replace(e.job, id=f'j {n},"')) for n, e in enumerate(jobs)))


def again(folder: Path, trace: Trace, format: str, *, seed: int = 9, zipped: bool = False) -> Trace:
    path = folder / "t.csv"
    path.write_bytes(to_bytes(trace, format, zipped=zipped))
    return read_trace(path, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@given(st.lists(weft_jobs(), min_size=1, max_size=6).map(numbered))
def test_weft_csv_and_jsonl_carry_all_there_and_back(folder: Path, trace: Trace) -> None:
    by_csv = again(folder, trace, "weft")
    by_jsonl = again(folder, by_csv, "weft-jsonl")
    assert trace.jobs == by_csv.jobs == by_jsonl.jobs
    assert to_bytes(by_jsonl, "weft") == to_bytes(trace, "weft")
    assert losses(trace, "weft") == losses(trace, "weft-jsonl") == {}


MS = st.integers(0, 10**12) | st.floats(0, 1e12).map(lambda value: round(value, 3))


@st.composite
def muri_rows(draw: st.DrawFn) -> str:
    first = [draw(st.integers(1, 64)), draw(MS), draw(st.integers(1, 10**9)), draw(st.sampled_from([*KNOWN, "llama"]))]
    times = [max(draw(MS), 1), max(draw(MS), 1), draw(MS), draw(MS), draw(MS)]
    return ",".join(map(str, [*first, draw(st.sampled_from(["", "16"])), *times, draw(st.integers(0, 1))]))


@given(st.lists(muri_rows(), min_size=1, max_size=5))
def test_muri_to_muri_is_exact(folder: Path, rows: list[str]) -> None:
    head = (
        "num_gpu,submit_time,iterations,model_name,batch_size,duration,iteration_time,"
        "resource_time_0,resource_time_1,resource_time_2,priority"
    )
    (folder / "m.csv").write_text("\n".join([head, *rows]))
    trace = read_trace(folder / "m.csv")
    assert again(folder, trace, "muri").jobs == trace.jobs
    assert losses(trace, "muri") == {}


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="Muri's traces are not here")
def test_muris_own_traces_are_written_as_they_were(tmp_path: Path) -> None:
    for path in sorted(REFERENCE.glob("*trace*.csv")):
        lines = path.read_text().splitlines()
        without = [",".join(cell for at, cell in enumerate(line.split(",")) if at != 7) for line in lines]
        trace = read_trace(path)
        assert again(tmp_path, trace, "muri").jobs == trace.jobs
        written = to_bytes(trace, "muri").decode().splitlines()
        assert sorted(written) == sorted(without), "but for `interval`, which nobody reads"


@pytest.mark.parametrize("format", ["philly", "elasticflow"])
def test_other_formats_carry_times_sizes_and_lengths(tmp_path: Path, format: str) -> None:
    trace = generate(200, seed=3)
    found = again(tmp_path, trace, format)
    assert [(e.submit_s, e.job.gpus, e.work_s, e.job.id) for e in found.jobs] == [
        (e.submit_s, e.job.gpus, e.work_s, e.job.id) for e in trace.jobs
    ]
    assert {e.job.user for e in found.jobs} == ({e.job.user for e in trace.jobs} if format == "philly" else {""})
    assert losses(trace, format)["model and opportunistic (drawn at random when it is read)"] == 200


def test_gzip_is_the_same_every_time(tmp_path: Path) -> None:
    assert to_bytes(small(), "weft", zipped=True) == to_bytes(small(), "weft", zipped=True)
    assert gzip.decompress(to_bytes(small(), "weft", zipped=True)) == to_bytes(small(), "weft")
    assert again(tmp_path, small(), "weft-jsonl", zipped=True).jobs == small().jobs


OWN = Profile("bert", iteration_s(123.0), 0.001, 0.002, 0.003, start_s("bert", 1))
FULL = Job(
    "a", name="n", user="u", memory_mb=PerRank(5), cpus=1, ram_mb=1,
    where=Where("A100", (("zone", "eu"),), (("n0", (1,)),)),
    share=Share(0.5, 0.5), priority=2, retries=1, declared_s=7.0, profile=OWN, params=(("batch_size", "4"),),
)  # fmt: skip
LOST = {
    "weft": {"stage times that differ from the profile table",
             "batch_size"},
    "muri": {"work that is not a whole number of iterations (rounded)", "user", "name", "memory_mb", "cpus", "ram_mb",
             "priority", "retries", "gpu_model", "share", "labels", "pinned"},
    "philly": {"model and opportunistic (drawn at random when it is read)", "batch_size", "name", "memory_mb", "cpus",
               "ram_mb", "priority", "retries", "gpu_model", "share", "labels", "pinned",
               "that the first job is not submitted at 0"},
}  # fmt: skip


@pytest.mark.parametrize("format", LOST)
def test_what_is_lost_is_known(format: str) -> None:
    assert losses(Trace("t", "weft", (TraceJob(3.0, FULL, 7.5),)), format).keys() == LOST[format]


def test_work_survives_where_stage_times_do_not(tmp_path: Path) -> None:
    (found,) = again(tmp_path, Trace("t", "weft", (TraceJob(3.0, FULL, 7.5),)), "weft").jobs
    assert (found.work_s, found.job.profile) == (7.5, profile("bert", 1))


def test_no_such_format() -> None:
    with pytest.raises(InputError, match="unknown trace format 'weff'\n  known: weft"):
        to_bytes(small(), "weff")
    assert set(WRITERS) == {"weft", "weft-jsonl", "muri", "philly", "elasticflow"}


def test_a_date_past_all_dates() -> None:
    jobs = tuple(TraceJob(at, Job(str(at), profile=OWN), 1.0) for at in (0.0, 1e15))
    with pytest.raises(InputError, match="the year 9999"):
        to_bytes(Trace("t", "weft", jobs), "philly")


# ---- JSON lines

GOOD: dict[str, Any] = {"submit_s": 0, "gpus": 2, "duration_s": 60}


def jsonl(folder: Path, *lines: object) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_values_may_have_json_types(tmp_path: Path) -> None:
    line = {**GOOD, "memory_mb": [5, 6], "opportunistic": True, "user": None, "model": "bert", "name": "ü"}
    first, second = read_trace(jsonl(tmp_path, line, "", {**GOOD, "submit_s": 1.5})).jobs
    assert (first.job.memory_mb, first.job.opportunistic, first.job.user, first.job.name) == ((5, 6), True, "", "ü")
    assert (second.submit_s, second.job.gpus, second.work_s) == (1.5, 2, 60)


WISHES: dict[str, tuple[dict[str, object], Share, Where]] = {
    "share": ({"share": 0.5}, Share(0.5, 0.5), ANYWHERE),
    "share and limit": ({"share": [0.25, 1]}, Share(0.25, 1.0), ANYWHERE),
    "share as text": ({"share": "0.25+0.5"}, Share(0.25, 0.5), ANYWHERE),
    "labels": ({"labels": {"zone": "eu", "disk": "a+b"}}, WHOLE, Where(labels=(("disk", "a+b"), ("zone", "eu")))),
    "labels as text": ({"labels": "zone = eu + disk=ssd"}, WHOLE, Where(labels=(("disk", "ssd"), ("zone", "eu")))),
    "pinned": ({"pinned": ["n1/3", "n0/0"]}, WHOLE, Where(pinned=(("n1", (3,)), ("n0", (0,))))),
    "pinned as text": ({"pinned": "n1/3+n1/0"}, WHOLE, Where(pinned=(("n1", (3, 0)),))),
}


@pytest.mark.parametrize(("wish", "share", "where"), WISHES.values(), ids=WISHES)
def test_shares_labels_and_pinned_gpus(tmp_path: Path, wish: dict[str, object], share: Share, where: Where) -> None:
    (each,) = read_trace(jsonl(tmp_path, {**GOOD, **wish})).jobs
    assert (each.job.share, each.job.where) == (share, where)


WRONG: dict[str, list[object]] = {
    "share": [0, 2, -1, "half", "1+0.5", "0.1+0.2+0.3", "nan", [0.5, "x"], [None]],
    "labels": ["zone", "=eu", "a=1+a=2", "a=1+", {"": "x"}, {"a": 1}, "{", '{"a": [1]}', ["zone"]],
    "pinned": ["n0/0", "n0/0+n0/0", "n0/0+n0/1+n0/2", "n0/0+/1", "n0/0+n1", "n0/x+n0/1", "[", "[1, 2]", {"n0": 1}],
}
BAD_WISHES: dict[str, tuple[object, str]] = {
    f"{column} {value}": ({**GOOD, column: value}, f"bad {column} ")
    for column, values in WRONG.items()
    for value in values
}
BAD: dict[str, tuple[object, str]] = {
    **BAD_WISHES,
    "not JSON": ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
    "a list": ("[1]", "not a JSON object"),
    "two objects": (json.dumps(GOOD) * 2, "not JSON"),
    "a field twice": ('{"submit_s": 0, "gpus": 1, "gpus": 2, "duration_s": 1}', "field 'gpus' occurs twice"),
    "missing": ({"submit_s": 0, "gpus": 1}, "the weft format needs a field 'duration_s'"),
    "unknown": ({**GOOD, "memory": 1}, "known: memory_mb"),
    "nested": ({**GOOD, "user": {"name": "x"}}, "bad user"),
    "NaN": ('{"submit_s": NaN, "gpus": 1, "duration_s": 1}', "bad submit_s 'nan'"),
    "half a GPU": ({**GOOD, "gpus": 0.5}, "bad gpus '0.5'"),
    "control character": ({**GOOD, "user": "a\u001b[2J"}, "text without control characters"),
    "deep": ("[" * 100_000, "not JSON"),
    "long number": ('{"gpus": ' + "9" * 9000 + "}", "not JSON"),
}


@pytest.mark.parametrize(("line", "fragment"), BAD.values(), ids=BAD)
def test_a_bad_line_is_named(tmp_path: Path, line: object, fragment: str) -> None:
    path = jsonl(tmp_path, GOOD, "", line)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert caught.value.where == f"{path}:3"
    assert fragment in str(caught.value)
    assert caught.value.hint
