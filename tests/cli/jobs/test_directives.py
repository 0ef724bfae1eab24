"""Batch scripts as Slurm's users have them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.weft_cli import Weft
from weft.access.jobspec.sbatch import read_script
from weft.errors import InputError

SCRIPT = """#!/bin/bash
#SBATCH --job-name=resnet
#SBATCH -t 1:30:00 --gres=gpu:2   # two of them
#SBATCH --cpus-per-task=2
#SBATCH --mem=5G
#SBATCH --partition=long --account=lab
#SBATCH -N1
#SBATCH --requeue
# an ordinary comment

echo "args $*; dir $(pwd); gpus $WEFT_GPU_IDS"
#SBATCH --gpus=8
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "train.sbatch", mode: int = 0o644) -> str:
    Path(name).write_text(text)
    Path(name).chmod(mode)
    return name


def given(*lines: str) -> dict[str, object]:
    script = read_script([write("#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines))])
    assert script is not None
    assert script.given.pop("compat") == "batch"
    return dict(script.given)


def test_a_script_is_submitted_as_it_is(weft: Weft, folder: Path) -> None:
    submitted = weft("submit", write(SCRIPT), "--fast", "x y")
    assert "ignored (no meaning in Weft): train.sbatch:6: --account" in submitted.err
    assert "time limit: 1h 30m" in submitted.err
    weft("wait", "@")
    job = weft.show("@")
    assert (job["name"], job["gpus"], job["time_limit_s"]) == ("resnet", 2, 5400.0)
    assert (job["cpus"], job["ram_mb"], job["group"]) == (1, 2560, "long")
    assert weft("logs", "@").out == f"args --fast x y; dir {folder}; gpus 0,1\n"


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_a_script_without_a_name_is_named_after_its_file(weft: Weft, mode: int) -> None:
    path = write("#!/bin/sh\n#SBATCH --gpus=0\necho $SLURM_JOB_NAME\n", mode=mode)
    assert weft("submit", path).out.endswith("(train.sbatch)\n")
    weft("wait", "@")
    assert weft("logs", "@").out == "train.sbatch\n"


def test_a_script_names_the_files_of_its_output(weft: Weft, folder: Path) -> None:
    (folder / "out").mkdir()
    options = "#SBATCH -J fit --array=2-3 -o out/%x-%A-%a.out\n#SBATCH --error=out/%j.err\n"
    span = "$SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX"
    job = weft.submit(write(f"#!/bin/sh\n{options}echo task $SLURM_ARRAY_TASK_ID of {span}; echo oops >&2\n"))
    weft("wait", job)
    texts = [(folder / "out" / f"fit-{job}-{index}.out").read_text() for index in (2, 3)]
    assert texts == ["task 2 of 2-3\n", "task 3 of 2-3\n"]
    assert (folder / "out" / f"{job}_3.err").read_text() == "oops\n"
    assert weft("logs", f"{job}_3").out == "task 3 of 2-3\n"
    assert weft("logs", "--stderr", f"{job}_3").out == weft("logs", "-f", "--stderr", f"{job}_3").out == "oops\n"


def test_a_placeholder_that_slurm_does_not_have_is_refused_with_its_line(weft: Weft) -> None:
    told = weft.fails("submit", write("#!/bin/sh\n#SBATCH -o out-%q\ntrue\n"))
    assert "'%q' is not known in 'out-%q'" in told
    assert "train.sbatch:2" in told
    assert "%j (the job's id)" in told


def test_a_job_without_a_file_for_standard_error_says_where_it_is(weft: Weft) -> None:
    job = weft.submit("--", "sh", "-c", "echo oops >&2")
    weft("wait", job)
    assert f"weft logs {job} prints them" in weft.fails("logs", "--stderr", job, code=3)


def test_an_array_script_gets_slurms_variables(weft: Weft) -> None:
    names = ("JOB_ID", "JOB_NAME", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "CPUS_PER_TASK", "NTASKS")
    shown = " ".join(f"$SLURM_{name}" for name in names)
    text = f"#!/bin/bash\n#SBATCH --array=1-3 -J arr --gres=gpu:0 -c 1\necho {shown}\n"
    job = weft.submit(write(text, "a.sbatch"))
    weft("wait", job)
    for at in (1, 2, 3):
        assert weft("logs", f"{job}_{at}").out == f"{job}_{at} arr {job} {at} 3 1\n"
    weft("run", "--compat", "none", "--gpus", "0", write("#!/bin/sh\n#SBATCH -J x\necho [$SLURM_JOB_ID]\n"))
    assert weft("logs", "@").out == "[]\n"


def test_all_of_slurms_variables_come_on_request(weft: Weft) -> None:
    names = ("NTASKS", "NNODES", "NODEID", "PROCID", "JOB_NODELIST", "JOB_NAME")
    script = "echo " + " ".join(f"$SLURM_{name}" for name in names) + "; echo $SLURMD_NODENAME"
    job = weft.submit("--compat", "slurm", "--gpus", "0", "--name", "all", "--", "sh", "-c", script)
    weft("wait", job)
    values, node = weft("logs", job).out.splitlines()
    assert values == f"1 1 0 0 {node} all"
    job = weft.submit(
        "--compat", "slurm", "--per-gpu", "--gpus", "2", "--", "sh", "-c", "echo $SLURM_PROCID/$SLURM_NTASKS"
    )
    weft("wait", job)
    assert sorted(weft("logs", job).out.split()) == ["0/2", "1/2"]
    assert "--compat: 'pbs' is not known" in weft.fails("submit", "--compat", "pbs", "--", "true")


def test_a_wrapped_line_runs_as_a_batch_script(weft: Weft) -> None:
    job = weft.submit("--gpus", "0", "--wrap", "echo $SLURM_JOB_ID | tr -d '\n'")
    weft("wait", job)
    assert (weft.show(job)["name"], weft("logs", job).out) == ("wrap", job)
    assert "a command and --wrap are both given" in weft.fails("submit", "--wrap", "true", "--", "true")


LIGHTNING = """#!{python}
#SBATCH --gpus=0 --time=00:00:03 --signal=SIGUSR1@2 --requeue
import os, pathlib, signal, subprocess, sys, time

def save(*_):  # as Lightning does with auto_requeue
    saved.write_text("7")
    subprocess.call("scontrol requeue " + os.environ["SLURM_JOB_ID"], shell=True)

saved = pathlib.Path("hpc_ckpt_1.ckpt")
signal.signal(signal.SIGUSR1, save)
signal.signal(signal.SIGTERM, lambda *_: print("bypassing SIGTERM"))
print("restart", os.environ["SLURM_RESTART_COUNT"], "from", saved.read_text() if saved.exists() else 0, flush=True)
while not saved.exists() or os.environ["SLURM_RESTART_COUNT"] == "0":
    time.sleep(0.1)
"""


def test_a_job_that_saves_at_a_signal_runs_again_at_its_time_limit(weft: Weft) -> None:
    script = write(LIGHTNING.format(python=sys.executable))
    job = weft.submit("--compat", "slurm", "--grace", "0.2s", script)
    weft("wait", job)
    assert (weft.show(job)["requeues"], weft.show(job)["failures"]) == (1, 0)
    assert weft("logs", job).out.startswith("restart 1 from 7\n")


def test_a_script_gets_the_variables_about_its_job(weft: Weft, folder: Path) -> None:
    names = ("SUBMIT_DIR", "JOB_PARTITION", "JOB_NODELIST", "NODELIST", "JOB_NUM_NODES")
    shown = " ".join(f"$SLURM_{name}" for name in names)
    job = weft.submit(write(f"#!/bin/bash\n#SBATCH --gpus=0 -p long\nset -eu\necho {shown}\n"))
    weft("wait", job)
    directory, group, nodes, same, count = weft("logs", job).out.split()
    assert (directory, group, count) == (str(folder), "long", "1")
    assert nodes == same == weft.json("nodes")["nodes"][0]["node"]


NEEDS = """#!/bin/bash
#SBATCH --gpus=0 --array=1-2
# srun in a comment
cd "$SLURM_SUBMIT_DIR"; export SLURM_MINE=1
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
echo $SLURM_MINE ${SLURM_GTIDS:-none} $SLURM_ARRAY_TASK_ID  # $SLURM_LATER
exec srun torchrun --nnodes $SLURM_NNODES --rdzv ${SLURM_JOB_QOS} train.py --with-srun srun.log
"""


def test_a_script_that_names_what_slurm_alone_has_is_noted(weft: Weft, folder: Path) -> None:
    notes = weft("submit", "--dry-run", write(NEEDS)).err.splitlines()
    path = folder / "train.sbatch"
    assert [note.removeprefix(f"weft: {path}:") for note in notes if "lurm" in note or "SLURM" in note] == [
        "5: scontrol is a command of Slurm; Weft has no such command",
        "7: srun is a command of Slurm; leave it out: Weft starts the script on each node",
        "7: $SLURM_NNODES is empty; --compat slurm sets it",
        "7: $SLURM_JOB_QOS is empty; Weft does not set it",
    ]
    assert "NNODES" not in weft("submit", "--dry-run", "--compat", "slurm", "train.sbatch").err
    assert weft("submit", "--dry-run", "-q", "train.sbatch").err == ""


def test_a_flag_says_that_a_job_must_not_run_twice_and_messages_have_their_own(weft: Weft) -> None:
    script = write("#!/bin/sh\n#SBATCH --requeue --gpus=0 --hold\n#SBATCH --mail-type=END --mail-user=ann@site\ntrue\n")
    submitted = weft("submit", "--no-requeue", script).err
    assert "ignored: train.sbatch:3: --mail-type, train.sbatch:3: --mail-user; --notify sends messages" in submitted
    assert "no meaning" not in submitted
    assert weft.show("@")["spec"]["requeue"] is False
    assert re.search(r"requeue +no\n", weft("show", "@").out)


def test_a_flag_wins_and_it_is_said(weft: Weft) -> None:
    submitted = weft("submit", "--gpus", "1", "--hold", write(SCRIPT))
    assert "--gpus on the command line overrides train.sbatch:3" in submitted.err
    assert weft.show("@")["gpus"] == 1


def test_a_mistake_is_told_with_its_line(weft: Weft) -> None:
    name = write("#!/bin/sh\n#SBATCH --gpus=1\n#SBATCH --time=soon\ntrue\n")
    assert "train.sbatch:3: --time: 'soon' is not a duration" in weft.fails("submit", name)
    assert weft.json("queue")["jobs"] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-J a", {"name": "a"}),
        ("-Ja -t30", {"name": "a", "time": "30"}),
        ("--job-name='a b' # c", {"name": "a b"}),
        ("--gres gpu:2", {"gpus": "2"}),
        ("--gres=gpu", {"gpus": "1"}),
        ("--gpus=A100:4", {"gpus": "4", "gpu_model": "A100"}),
        ("-a 0-9%4", {"array": "0-9%4"}),
        ("--dependency=afterok:3:4,afterok:5", {"after": ["afterok:3:4", "afterok:5"]}),
        ("--nice=5", {"priority": "-5"}),
        ("--nice=-5", {"priority": "5"}),
        ("--hold -D /tmp", {"hold": "true", "chdir": "/tmp"}),
        ("--signal=B:USR1@7", {"signal": "B:USR1@7"}),
        ("-c 8 --gpus=3", {"gpus": "3", "cpus": "3"}),
        ("--gpus=0 --mem=1000", {"gpus": "0", "mem": "1000"}),
        ("--cpus-per-gpu=2 -c 8", {"cpus": "2"}),
        ("--output=x.log -p gpu --requeue", {"output": "x.log", "group": "gpu", "requeue": "true"}),
        ("--requeue --no-requeue", {"requeue": "false"}),
        ("-o out/%x-%j.out -e out/%A_%a.err", {"output": "out/%x-%j.out", "error": "out/%A_%a.err"}),
    ],
)
def test_each_option(line: str, expected: dict[str, object]) -> None:
    assert given(line) == expected


@pytest.mark.parametrize("line", ["train", "--mem=lots", "-c many", '--job-name="a', "--nice=x"])
def test_what_cannot_be_read_is_told_with_its_line(line: str) -> None:
    with pytest.raises(InputError) as found:
        given(line)
    assert found.value.where == "train.sbatch:2"


@pytest.mark.parametrize(
    "text",
    ["#!/bin/sh\ntrue\n#SBATCH --gpus=2\n", "#SBATCH --gpus=2\n", "#!/bin/sh\n", "", "#!/bin/sh\n##SBATCH -N 2\n"],
)
def test_anything_else_is_an_ordinary_command(text: str) -> None:
    assert read_script([write(text)]) is None
    assert read_script(["true"]) is None
    assert read_script([]) is None


def test_one_that_can_be_run_is_run_by_itself(folder: Path) -> None:
    script = read_script([write("#!/usr/bin/env -S python3 -u\n#SBATCH -t 5\n", mode=0o755), "a"])
    assert script is not None
    assert script.command == [str(folder / "train.sbatch"), "a"]
    Path("train.sbatch").chmod(0o644)
    again = read_script(["train.sbatch"])
    assert again is not None
    assert again.command == ["/usr/bin/env", "-S", "python3", "-u", str(folder / "train.sbatch")]
