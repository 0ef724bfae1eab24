from __future__ import annotations

import re
from pathlib import Path

from support.train_env import Inside
from weft import train

DOCS = Path(__file__).resolve().parents[3] / "docs"
HOWTO = (DOCS / "howto" / "checkpoint-and-resume.md").read_text()
SCRIPT = re.findall(r"^```python\n(.*?)^```$", HOWTO, re.MULTILINE | re.DOTALL)[0]


def test_the_script_of_the_page_runs_in_a_job_and_outside(job: Inside) -> None:
    job.run(SCRIPT, outside=True)
    assert not (job.root / "checkpoints" / "latest.json").exists()
    job.run(SCRIPT)
    assert job.latest["step"] == 300
    assert job.done.exists()


def test_the_script_of_the_page_goes_on_where_it_was(job: Inside) -> None:
    (job.root / "preempt").touch()
    job.run(SCRIPT, code=85)
    stopped = job.latest["step"]
    assert stopped < 300
    (job.root / "preempt").unlink()
    job.run(SCRIPT)
    steps = [each["step"] for each in job.scheduler.rest()]
    assert steps[-1] == 300


def test_every_function_is_documented() -> None:
    page = (DOCS / "reference" / "train.md").read_text()
    for name in set(train.__all__) - {"Preemptible"}:
        assert f"`{name}(" in page or f"{name}()" in page, name
