"""Every fact survives the trip to JSON and back, exactly; whatever cannot is refused with words."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from math import inf, nan
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import JournalError
from weft.history.journal.codec import check_format, decode, decode_line, encode, encode_line
from weft.model import (
    FACTS,
    Alarm,
    Exited,
    Fact,
    Gpu,
    Job,
    Node,
    NodeJoined,
    PerRank,
    Profile,
    Rollout,
    Share,
    Start,
    Started,
    Submitted,
    Task,
    Wake,
    Where,
)

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}

EMPTY = (MISSING, None, "", 0, ())


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a declared type."""
    args = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{f.name: any_of(hints[f.name]) for f in fields(hint)})
    if get_origin(hint) is Literal:
        return st.sampled_from(args)
    if get_origin(hint) is tuple:
        if args[1:] == (...,):
            return st.lists(any_of(args[0]), max_size=3).map(tuple)
        return st.tuples(*map(any_of, args))
    return st.one_of(*map(any_of, args))


any_fact = st.one_of(*map(any_of, FACTS))


@given(any_fact)
def test_round_trip_is_exact(fact: Fact) -> None:
    line = encode_line(fact)
    back = decode_line(line)
    assert back == fact
    assert type(back) is type(fact)
    assert encode_line(back) == line
    assert line.isascii()
    assert "\n" not in line
    assert decode(encode(fact)) == fact


def test_a_line_reads_well_and_leaves_defaults_out() -> None:
    fact = Start(at=1.5, job="a", run=2, slots=(("n0", (0, 1)),))
    assert encode_line(fact) == '{"fact":"Start","at":1.5,"job":"a","run":2,"slots":[["n0",[0,1]]]}'
    job = Job("a", gpus=8, memory_mb=PerRank(1, 2), share=Share(0.5, 0.5), where=Where(pinned=(("n0", (3,)),)))
    assert encode(Submitted(0.0, job))["job"] == {
        "id": "a",
        "gpus": 8,
        "memory_mb": [1, 2],
        "share": {"request": 0.5, "limit": 0.5},
        "where": {"pinned": [["n0", [3]]]},
    }


@pytest.mark.parametrize("value", [0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1e22, -0.0, 3])
def test_numbers_keep_every_digit(value: float) -> None:
    back = decode_line(encode_line(Wake(value)))
    assert repr(back.at) == repr(value)


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_numbers_that_json_lacks_are_refused(value: float) -> None:
    for write in (encode, encode_line):
        with pytest.raises(JournalError, match=r"Alarm\(.*must be finite"):
            write(Alarm(at=0.0, due=value))
    with pytest.raises(JournalError, match=r"Alarm\.due cannot be"):
        decode({"fact": "Alarm", "at": 0.0, "due": value})


@pytest.mark.parametrize("text", ["1e999", "NaN", "-Infinity"])
def test_numbers_too_large_to_hold_are_refused(text: str) -> None:
    with pytest.raises(JournalError, match=r"Wake\.at cannot be"):
        decode_line(f'{{"fact":"Wake","at":{text}}}')


def test_bytes_of_no_encoding_survive_and_forged_pairs_are_refused() -> None:
    undecodable = Started(0.0, "a\udcff\U0001f9f6", 1)
    assert decode_line(encode_line(undecodable)) == undecodable
    with pytest.raises(JournalError, match="surrogate pair"):
        encode_line(Started(0.0, "\ud83e\uddf6", 1))


def test_decode_leaves_its_argument_alone() -> None:
    body = encode(Wake(1.0))
    decode(body)
    assert body == {"fact": "Wake", "at": 1.0}


def test_a_value_that_is_no_plain_one_is_refused() -> None:
    command: Any = ({"a", "set"},)
    with pytest.raises(JournalError, match="set is not JSON serializable"):
        encode_line(Submitted(0.0, Job("a", command=command)))
    not_a_fact: Any = Job("a")
    with pytest.raises(JournalError, match=r"not a fact.*weft\.model\.FACTS"):
        encode_line(not_a_fact)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"fact":"Starte', "not JSON"),
        ('{"fact":"Wake","at":0}{}', "more than one value"),
        ("[1]", "an object with its type under 'fact', not"),
        ('{"at":0}', "an object with its type under 'fact', not"),
        ('{"fact":"Startd","at":0}', "unknown fact 'Startd'\n  .*upgrade.*knows Start"),
        ('{"fact":["Start"]}', "unknown fact"),
        ('{"fact":"Wake","at":0,"att":1}', "Wake has no field 'att'\n  .*upgrade.*knows at"),
        ('{"fact":"Wake"}', "Wake lacks at"),
        ('{"fact":"Start","at":0,"job":"a"}', "Start lacks run, slots"),
        ('{"fact":"Wake","at":"0"}', r"Wake\.at cannot be '0'"),
        ('{"fact":"Wake","at":true}', r"Wake\.at cannot be True"),
        ('{"fact":"Exited","at":0,"job":"a","run":1,"how":"great"}', r"Exited\.how cannot be 'great'"),
        ('{"fact":"Reserve","at":0,"job":"a","slots":[["n0",[0],1]]}', r"Reserve\.slots cannot be"),
        ('{"fact":"Reserve","at":0,"job":"a","slots":[["n0",["0"]]]}', r"Reserve\.slots cannot be"),
        ('{"fact":"Submitted","at":0,"job":{"id":"a","gpus":1.5}}', r"Job\.gpus cannot be 1\.5.*declared as int"),
        ('{"fact":"Submitted","at":0,"job":{"id":"a","memory_mb":{}}}', r"Job\.memory_mb cannot be"),
        ('{"fact":"Submitted","at":0,"job":null}', r"Submitted\.job cannot be None"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_line_that_is_no_fact_says_why(line: str, says: str) -> None:
    with pytest.raises(JournalError, match=says):
        decode_line(line)


def test_nested_values_come_back_as_their_classes() -> None:
    body = {
        "fact": "NodeJoined",
        "at": 0,
        "node": {"id": "n0", "gpus": [{"model": "V100"}, {}], "labels": [["a", "b"]]},
    }
    joined = decode(body)
    assert isinstance(joined, NodeJoined)
    assert [gpu.model for gpu in joined.node.gpus] == ["V100", ""]
    assert joined.node.labels == (("a", "b"),)
    exited = decode(json.loads('{"fact":"Exited","at":1,"job":"a","run":1,"how":"lost"}'))
    assert exited == Exited(1, "a", 1, "lost", None, None)


@pytest.mark.parametrize(
    ("found", "says"), [(4, "format 4.*\n  use the version"), (0, "not a journal format"), ("1", "not a journal")]
)
def test_formats_that_cannot_be_read(found: object, says: str) -> None:
    check_format(1, "a.jsonl:1")
    with pytest.raises(JournalError, match=r"a\.jsonl:1: .*" + says):
        check_format(found, "a.jsonl:1")


def test_defaults_are_part_of_the_format() -> None:
    """A field left out of an old journal means its default of then: a changed default needs a new FORMAT."""
    kinds: list[type[Any]] = [Gpu, Node, Profile, Share, Where, Job, *FACTS]
    defaults = {f"{k.__name__}.{f.name}": f.default for k in kinds for f in fields(k) if f.default not in EMPTY}
    assert defaults == {
        "Gpu.memory_mb": 32768,
        "Share.request": 1.0,
        "Share.limit": 1.0,
        "Job.gpus": 1,
        "Job.memory_mb": PerRank(0),
        "Job.share": Share(1.0, 1.0),
        "Job.where": Where("", (), ()),
        "Started.rate": 1.0,
        "PoolPaused.why": "Paused",
        "Progressed.rate": 1.0,
        "Start.share": Share(1.0, 1.0),
        "Paused.why": "Paused",
        "Resumed.why": "Paused",
        "JobSnapshot.share": Share(1.0, 1.0),
        "JobSnapshot.stop_why": "preempted",
        "JobSnapshot.started_at": -1.0,
        "JobSnapshot.rate_since": -1.0,
        "JobSnapshot.key_changed_at": -1.0,
        "JobSnapshot.woven_at": -1.0,
        "ServiceSnapshot.rollout": Rollout(),
    }


def test_jobs_with_equal_environments_share_one() -> None:
    env = tuple((f"V{number}", "x") for number in range(100))
    lines = [encode_line(Submitted(0.0, Job(f"1_{at}", command=("x", "y"), task=Task(env=env)))) for at in range(3)]
    jobs = [fact.job for fact in map(decode_line, lines) if isinstance(fact, Submitted)]
    assert len({id(job.task.env) for job in jobs if job.task is not None}) == 1
    assert len({id(job.command) for job in jobs}) == 1
    assert [job.task.env for job in jobs if job.task is not None] == [env] * 3
