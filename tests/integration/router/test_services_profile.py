"""Live profiles of services, with real processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support.programs.plain_program
from support.running.local_scheduler import Site, site, until

PROGRAM = Path(support.programs.plain_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(GPUS) as made:
        yield made


def services(here: Site) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(here.weft("services", "--json", check=True).stdout)["services"]}


def test_a_service_is_profiled_by_trials(here: Site) -> None:
    lines = ["service: plain", f"run: exec {sys.executable} {PROGRAM}", "share: 0.3/0.6", "retry: unanswered"]
    (here.root / "plain.yaml").write_text("\n".join(lines) + "\n")
    here.weft("deploy", "plain.yaml", "--wait", check=True)
    words = ["--slo", "30s", "--shares", "20,40", "--max-batch", "2", "--rounds", "1", "--path", "/x", "--json"]
    found = json.loads(here.weft("profile", "service", "plain", *words, check=True).stdout)
    assert (found["share"], found["batch"], found["trials"]) == (0.2, 2, 2)
    assert here.weft("profile", "service", "plain", "--slo", "1s", "--shares", "40,20").returncode == 2
    until(lambda: services(here).keys() == {"plain"})
    here.weft("undeploy", "plain", check=True)
    until(lambda: not services(here))
