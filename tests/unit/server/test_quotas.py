"""What one user may have of a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import Rig, grid
from weft.errors import InputError, Refused
from weft.model import Job
from weft.server.jobs.quotas import ALL, FILE, Limits
from weft.server.settings import Settings

SET = Settings(max_gpus_per_user=4, max_queued_per_user=3)


def test_more_than_is_allowed_is_refused_with_words_about_the_quota(tmp_path: Path) -> None:
    limits = Limits(SET, tmp_path)
    limits.check("ada", [Job("1", 4)] * 2, ["ada", "bob", "bob", "bob"])
    with pytest.raises(Refused, match="quota: ada has 2 jobs"):
        limits.check("ada", [Job("1")] * 2, ["ada", "bob", "ada"])
    with pytest.raises(Refused, match="quota: 5 GPUs"):
        limits.check("ada", [Job("1", 5)], [])


def test_exceptions_are_by_user_and_zero_means_all(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"ada": {"gpus": 0, "queued": 0}, "bob": {"gpus": 1}}))
    limits = Limits(SET, tmp_path)
    limits.check("ada", [Job("1", 64)] * 10, ["ada"] * 10)
    assert (limits.gpus_of("bob"), limits.queued_of("bob")) == (1, 3)


def test_the_state_is_told_only_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"ada": {"gpus": 0}, "bob": {"gpus": 1}}))
    rig, limits = Rig("fifo", grid(1, 1)), Limits(SET, tmp_path)
    rig.tell(*limits.facts(rig.state, 0.0))
    assert rig.state.eligibility.limits == {"": 4, "ada": ALL, "bob": 1}
    assert limits.facts(rig.state, 0.0) == []
    rig.tell(*Limits(Settings(), tmp_path / "elsewhere").facts(rig.state, 0.0))
    assert rig.state.eligibility.limits == {}


@pytest.mark.parametrize("text", ["[]", '{"ada": 3}', '{"ada": {"gpus": -1}}', '{"ada": {"cpus": 1}}', "{"])
def test_a_file_that_makes_no_sense_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError) as caught:
        Limits(SET, tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
