"""The weaves of a node: their directories, the file that tells a run its place, and the variables of its process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running.process_engine import launch
from weft.errors import InputError
from weft.node.engine import weaves
from weft.node.engine.environment import HOOKS_PATH, run_environment
from weft.node.engine.rendezvous import Gang, GangMember
from weft.node.engine.weaves import WeaveSpec
from weft.train.weave.directory import StateFile, is_alive, read_counters
from weft.train.weave.layout import View
from weft.train.weave.member import Member

SPEC = WeaveSpec("7-12", 1, 3, "fair", 5.0)


def test_a_weave_is_created_once(tmp_path: Path) -> None:
    path = weaves.prepare(tmp_path, SPEC)
    assert path == tmp_path / "weaves" / "7-12"
    member = Member(str(path), 1)
    inode = (path / "state").stat().st_ino
    assert weaves.prepare(tmp_path, SPEC) == path
    assert (path / "state").stat().st_ino == inode
    assert [each.place for each in read_counters(path)] == [1]
    member.leave()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (WeaveSpec("../x", 0, 2), "weave id"),
        (WeaveSpec("x", 2, 2), "place 2"),
        (WeaveSpec("x", 0, 9), "up to 8 members"),
        (WeaveSpec("x", 0, 2, "odd"), "unknown order 'odd'"),  # type: ignore[arg-type]
        (WeaveSpec("x", 0, 2, "fair", 0.0), "limit"),
        (WeaveSpec("x", 0, 2, "fair", float("nan")), "limit"),
    ],
)
def test_a_weave_that_makes_no_sense_is_refused(tmp_path: Path, spec: WeaveSpec, text: str) -> None:
    with pytest.raises(InputError, match=text):
        weaves.prepare(tmp_path, spec)
    with pytest.raises(InputError, match=text):
        launch("true", weave=spec).check()
    assert not list(tmp_path.iterdir())


def test_a_run_is_told_its_weave(tmp_path: Path) -> None:
    run_dir = tmp_path / "jobs" / "7" / "1"
    (tmp_path / "jobs").mkdir()
    weaves.rewrite(run_dir, SPEC)
    told = json.loads((run_dir / "weave.json").read_text())
    assert told == {"dir": str(tmp_path / "weaves" / "7-12"), "place": 1, "size": 3}
    assert weaves.weave_of(run_dir) == (tmp_path / "weaves" / "7-12", 1)
    weaves.rewrite(run_dir, None)
    assert json.loads((run_dir / "weave.json").read_text()) == {}
    assert weaves.weave_of(run_dir) is None


def test_a_run_that_was_never_woven_needs_no_file(tmp_path: Path) -> None:
    weaves.rewrite(tmp_path / "jobs" / "7" / "1", None)
    assert not list(tmp_path.iterdir())


def test_unused_weaves_are_removed_but_no_living_member_loses_its_own(tmp_path: Path) -> None:
    used, old, living = (weaves.prepare(tmp_path, WeaveSpec(name, 0, 2)) for name in ("used", "old", "living"))
    member = Member(str(living), 0)
    assert weaves.collect(tmp_path, {"used"}) == ["old"]
    assert used.exists()
    assert not old.exists()
    member.leave()
    assert sorted(weaves.collect(tmp_path, set())) == ["living", "used"]
    assert not (tmp_path / "weaves").exists()
    assert weaves.collect(tmp_path, set()) == []


def test_the_turns_of_a_member_that_ended_go_on(tmp_path: Path) -> None:
    path = str(weaves.prepare(tmp_path, SPEC))
    first, second = Member(path, 0), Member(path, 1)
    assert first.acquire("gpu", lambda: False)
    assert is_alive(path, 0)
    first.close()  # as if it were killed: it says nothing
    weaves.heal(path, 0)
    assert second.acquire("gpu", lambda: False)
    assert [each.present for each in read_counters(path)] == [False, True]
    second.leave()
    weaves.heal(tmp_path / "nothing", 0)


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    path = str(weaves.prepare(deep, SPEC))
    member = Member(path, 0)
    assert member.acquire("gpu", lambda: False)
    assert not member.release("gpu")
    assert not member.failure
    member.leave()
    file = StateFile(path)
    assert file.change(lambda raw: (raw, View(raw).present))[1] == 0
    file.close()


def test_the_variables_of_a_member(tmp_path: Path) -> None:
    jobs = str(tmp_path / "jobs")
    env = run_environment(launch("true", gpus=(0,), weave=SPEC), "n", jobs, "t", 0.0)
    assert env["WEFT_WEAVE_DIR"] == str(tmp_path / "weaves" / "7-12")
    assert (env["WEFT_WEAVE_PLACE"], env["WEFT_WEAVE_SIZE"]) == ("1", "3")
    assert env["WEFT_WEAVE_FILE"] == f"{jobs}/1/1/weave.json"
    alone = run_environment(launch("true", gpus=(0,)), "n", jobs, "t", 0.0)
    assert [name for name in alone if "WEAVE" in name] == ["WEFT_WEAVE_FILE"]
    assert not [name for name in run_environment(launch("true"), "n", jobs, "t", 0.0) if "WEAVE" in name]


def test_only_the_first_node_of_a_gang_takes_turns(tmp_path: Path) -> None:
    members = (GangMember("a", "127.0.0.1", 1), GangMember("b", "127.0.0.1", 1))
    for weave, size in ((SPEC, "3"), (None, "1")):  # a gang that is not woven yet may become a member
        spec = launch("true", gpus=(0,), weave=weave, gang=Gang(members, 1, 20000))
        env = run_environment(spec, "b", str(tmp_path / "jobs"), "t", 0.0, spec.gang)
        assert {name: value for name, value in env.items() if "WEAVE" in name} == {"WEFT_WEAVE_SIZE": size}


def test_hooks_come_before_the_users_own_path(tmp_path: Path) -> None:
    jobs = str(tmp_path / "jobs")
    auto = run_environment(launch("true", stages="auto", env=(("PYTHONPATH", "/mine"),)), "n", jobs, "t", 0.0)
    assert (auto["WEFT_STAGES"], auto["PYTHONPATH"]) == ("auto", f"{HOOKS_PATH}:/mine")
    by_variable = run_environment(launch("true", env=(("WEFT_STAGES", "auto"),)), "n", jobs, "t", 0.0)
    assert by_variable["PYTHONPATH"] == HOOKS_PATH
    assert "PYTHONPATH" not in run_environment(launch("true"), "n", jobs, "t", 0.0)
    with pytest.raises(InputError, match="unknown stages 'all'"):
        launch("true", stages="all").check()
