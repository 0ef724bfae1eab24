"""The limits of one user on a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.builders import Rig, grid
from weft.access.server.settings import Settings
from weft.errors import InputError, Refused
from weft.model import Job
from weft.server.jobs.quotas import FILE, UNLIMITED_GPUS, Quotas

SET = Settings(max_gpus_per_user=4, max_queued_per_user=3)


def test_more_than_is_allowed_is_refused_with_words_about_the_quota(tmp_path: Path) -> None:
    quotas = Quotas(SET, tmp_path)
    quotas.check("ada", [Job("1", 4)] * 2, ["ada", "bob", "bob", "bob"])
    with pytest.raises(Refused, match="quota: ada has 2 jobs"):
        quotas.check("ada", [Job("1")] * 2, ["ada", "bob", "ada"])
    with pytest.raises(Refused, match="quota: 5 GPUs"):
        quotas.check("ada", [Job("1", 5)], [])


def test_exceptions_are_by_user_and_zero_means_all(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"ada": {"gpus": 0, "queued": 0}, "bob": {"gpus": 1}}))
    quotas = Quotas(SET, tmp_path)
    quotas.check("ada", [Job("1", 64)] * 10, ["ada"] * 10)
    assert (quotas.gpus_of("bob"), quotas.queued_of("bob")) == (1, 3)


def test_the_state_is_told_only_what_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"ada": {"gpus": 0}, "bob": {"gpus": 1}}))
    rig, quotas = Rig("fifo", grid(1, 1)), Quotas(SET, tmp_path)
    rig.tell(*quotas.facts(rig.state, 0.0))
    assert rig.state.eligibility.limits == {"": 4, "ada": UNLIMITED_GPUS, "bob": 1}
    assert quotas.facts(rig.state, 0.0) == []
    rig.tell(*Quotas(Settings(), tmp_path / "elsewhere").facts(rig.state, 0.0))
    assert rig.state.eligibility.limits == {}


@pytest.mark.parametrize("text", ["[]", '{"ada": 3}', '{"ada": {"gpus": -1}}', '{"ada": {"cpus": 1}}', "{"])
def test_a_file_that_makes_no_sense_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError) as caught:
        Quotas(SET, tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
