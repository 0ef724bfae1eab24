"""The commands of "Run Dilu's functions", as the page has them. Stand-ins replace its programs and images."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import support.programs.plain_program
from support.running.local_scheduler import site, until

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "howto" / "move-from-dilu.md").read_text()
SERVER = Path(support.programs.plain_program.__file__).read_text().replace("serve.port()", "int(sys.argv[-1])")


def test_the_commands_of_the_page() -> None:
    (description,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    commands = [line for block in re.findall(r"```\n(weft .*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert [line.split()[1] for line in commands] == ["up", "deploy", "call", "submit", "load", "services"]
    with site({"min_run_s": 0.0}) as here:
        for folder in ("workloads", "data/workloads"):
            (here.root / folder).mkdir(parents=True)
        (here.root / "roberta.yaml").write_text(
            re.sub(r"image: .*\n", "", description).replace("python ", f"{sys.executable} ")
        )
        (here.root / "workloads" / "run_Roberta_INF_batch.py").write_text(
            f"import sys\n{SERVER.partition('annotations')[2]}"
        )
        (here.root / "workloads" / "dp_roberta.py").write_text("import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n")
        (here.root / "data" / "workloads" / "bursty.txt").write_text("1\n2\n")
        for line in commands:
            line = re.sub(r"--image \S+ ", "", line).replace("-- python", f"-- {sys.executable}")
            words = shlex.split(line.replace("--gpus driver", "--gpus 0,1 --models A100,A100 --memories 40G,40G"))
            done = here.weft(*words[1:], *(["--json"] if "load" in words else []), check=True)
            if "load" in words:
                assert (found := json.loads(done.stdout))["requests"] == found["ok"] > 0, found
        until(
            lambda: json.loads(here.weft("show", "dp-roberta-training", "--json").stdout)["jobs"][0]["status"] == "done"
        )
        found = json.loads(here.weft("services", "--json", check=True).stdout)["services"][0]
        assert (found["name"], found["scaler"], found["ready"]) == ("RoBERTa-inf", "lazy:window=40:out=20:in=30", 1)
