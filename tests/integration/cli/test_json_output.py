"""The output of --json, compared with that of an earlier version: keys, their order, and values.

`WEFT_RECORD=1 pytest tests/integration/cli/test_json_output.py` writes the recordings again. Fields may be added; all
other changes raise the schema's number.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import Site, site, until

RECORDED = Path(__file__).parent / "recorded"
DEVICES = [{"uuid": f"GPU-{index}", "model": "RTX3090", "memory_mb": 24576, "used_mb": 100} for index in range(3)]
REPORT = (
    "import weft.train as t, time\n"
    "t.progress(30, 120, loss=0.5)\n"
    "time.sleep(600)"
)  # fmt: skip
VARYING = (
    (r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"<time>"'),
    (r'"(started|ended)": \d+\.\d+', r'"\1": <number>'),
    (r'"(time_s|gpu_seconds|eta_s|in_s|beat_s|lost_in_s|at|load|pid|position|facts|bytes|wal_bytes|free_mb|cpus|ram_mb)'
     r'": -?[\d.e-]+', r'"\1": <number>'),
    (r'"(python|platform|version|versions|user|made_by|limits)": ("[^"]*"|\{[^}]*\})', r'"\1": <text>'),
    (r"for \d+ s", "for <n> s"),
    (r"drained by \w+", "drained by <user>"),
    (r"weft/[0-9a-f]{8}", "weft/<hash>"),
    (r'"id": "[0-9a-f]{12}"', '"id": "<id>"'),
    (r"servers/\d+", "servers/<port>"),
    (r'"settings": \{[^}]*\}', '"settings": <settings>'),
    (r'"checks": \[[^]]*\]', '"checks": <checks>'),
    (r'"(enforced|advisory)": \[[^]]*\]', r'"\1": <sentences>'),
    (r"127\.0\.0\.1:\d+|localhost:\d+", "<address>"),
)  # fmt: skip


def masked(text: str, root: Path) -> str:
    """Without what differs from machine to machine and from time to time."""
    text = text.replace(sys.executable, "<python>").replace(str(root), "<root>").replace(str(root.resolve()), "<root>")
    text = text.replace(socket.gethostname(), "<host>").replace(platform.node(), "<host>")
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    return text


def compare(name: str, found: dict[str, str]) -> None:
    path = RECORDED / f"json_{name}.json"
    if os.environ.get("WEFT_RECORD"):
        path.write_text(json.dumps(found, indent=1) + "\n")
    expected = json.loads(path.read_text())
    assert list(found) == list(expected)
    for command, text in found.items():
        assert text == expected[command], command


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    """Two of three GPUs, so that they are not numbered as they are counted."""
    driver = tmp_path / "gpus.json"
    driver.write_text(json.dumps({"devices": DEVICES}))
    with site({"gpus": "0,2", "min_run_s": 0, "policy": "fifo"}, WEFT_NVML_FAKE=str(driver)) as made:
        yield made


def test_one_machine(here: Site) -> None:
    found: dict[str, str] = {}

    def record(*words: str) -> None:
        done = here.weft(*words, "--json")
        found[f"{len(found)} {' '.join(words)}"] = masked(done.stdout, here.root) + f"exit {done.returncode}"

    def submit(*words: str) -> None:
        here.weft("submit", *words, check=True)

    record("queue")
    record("history")
    record("down")
    record("doctor")
    submit("--name", "e", "--gpus", "0", "--", "sh", "-c", "exit 3")
    until(lambda: '"status": "failed"' in here.weft("show", "e", "--json").stdout)
    submit("--name", "a", "--gpus", "2", "--memory", "1G", "--time", "2h", "--param", "lr=0.1", "--",
           sys.executable, "-c", REPORT)  # fmt: skip
    submit("--name", "b", "--gpus", "1", "--gpu-ids", "2", "--comment", "second", "--", "true")
    submit("--name", "c", "--gpus", "1", "--hold", "--after", "3", "--", "true")
    submit("--name", "d", "--gpus", "1", "--array", "0-1", "--priority", "3", "--", "true")
    until(lambda: '"step": 30' in here.weft("show", "2", "--json").stdout)
    for job in ("1", "2", "3", "4", "5_1"):
        record("show", job)
        record("why", job)
    record("drain", "2")
    for command in ("queue", "gpus", "nodes", "history"):
        record(command)
    record("queue", "-a")
    record("monitor", "--count", "1")
    record("wait", "1")
    record("operate", "dump", "all")
    for words in ("policy", "interval 60", "pass", "set 3 priority=5", "pause"):
        record("operate", *words.split())
    record("queue")
    record("undrain")
    record("resume")
    record("doctor")
    record("hold", "3")
    record("release", "3", "1")
    record("cancel", "-y", "2", "3", "4", "5")
    record("wait", "2", "3")
    record("clean", "1")
    record("down")
    compare("machine", found)


def test_cluster() -> None:
    found: dict[str, str] = {}
    with cluster() as made:

        def record(*words: str) -> None:
            done = made.call(*words, "--json")
            found[f"{len(found)} {' '.join(words)}"] = masked(done.stdout, made.root) + f"exit {done.returncode}"

        prepare(made)
        for command in ("queue", "gpus", "nodes", "doctor"):
            record(command)
        for job in ("1", "2", "3"):
            record("show", job)
            record("why", job)
        record("drain", "n2", "n1[5]")
        record("gpus")
        record("nodes")
        record("monitor", "--count", "1", "--worker", "n1")
        record("undrain", "n2", "n1[5]")
        record("auth", "list")
    compare("cluster", found)


def prepare(made: Cluster) -> None:
    made.join("n1", "2,5", "A100")
    made.join("n2", "0,1", "V100")
    made.submit("sleep", "600", flags=("--name", "a", "--gpus", "2", "--gpu-model", "A100"))
    made.submit("sleep", "600", flags=("--name", "b", "--gpus", "1", "--gpu-ids", "5", "--node", "n1"))
    made.submit("sleep", "600", flags=("--name", "c", "--gpus", "4"))
    made.until_status("1", "running")
