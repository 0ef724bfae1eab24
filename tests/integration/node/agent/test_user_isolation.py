"""A worker that runs as root: three real users on one node, and jobs that others can neither read nor stop."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.running.other_users import User
from support.running.shared_node import SharedNode, is_denied, shared_node
from weft.access.endpoints.paths import server_folder
from weft.node.engine import cgroups

WAITS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNode]:
    """A node with two GPUs, whose device files are those of /dev/zero and /dev/full under other names."""
    folder, rows = tmp_path_factory.mktemp("dev"), []
    for gpu, minor in enumerate((5, 7)):
        path = Path(f"/dev/weft-test-{os.getpid()}-{gpu}")
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        path.chmod(0o666)
        rows.append({"path": str(path), "model": "A", "memory_mb": 8192, "uuid": f"GPU-{gpu}"})
    (folder / "nvml.json").write_text(json.dumps({"devices": rows}))
    try:
        with shared_node(3, nvml=folder / "nvml.json") as made:
            yield made
    finally:
        for row in rows:
            os.unlink(str(row["path"]))


@pytest.fixture(scope="module")
def secret(node: SharedNode) -> str:
    """A job of the first user that has something in its log, environment, parameters and checkpoints."""
    ann = node.users[0]
    script = f"echo IN-THE-LOG; echo x > $WEFT_CKPT_DIR/model; echo x > $WEFT_DONE_FILE.not; {WAITS}"
    words = ("--env", "WORD=IN-THE-ENVIRONMENT", "--param", "rate=3", "--gpus", "1", "--", "sh", "-c", script)
    job = node.submit(ann, *words)
    until(lambda: "IN-THE-LOG" in node.log(job))
    return job


def paths(node: SharedNode, job: str) -> list[Path]:
    """Everything that a job leaves on its node."""
    top = node.folder / "jobs" / job
    return [top, *top.rglob("*")]


def test_a_job_runs_as_the_user_who_submitted_it(node: SharedNode, secret: str) -> None:
    ann = node.users[0]
    status = Path(f"/proc/{node.pid(secret)}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    gid = str(os.stat(node.run_dir(secret) / "work").st_gid)
    assert fields["Uid"].split() == [str(ann.uid)] * 4
    assert fields["Gid"].split() == [gid] * 4
    assert fields["Groups"].split() == [gid]
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0


def test_another_user_reads_neither_log_nor_environment_nor_checkpoints(node: SharedNode, secret: str) -> None:
    ann, *others = node.users
    found = paths(node, secret)
    assert {"output.log", "spec.json", "model", "params.json", "work"} <= {path.name for path in found}
    for other in others:
        for path in found:
            assert is_denied(other.run("ls" if path.is_dir() else "cat", path)), path
        assert is_denied(other.run("cat", f"/proc/{node.pid(secret)}/environ"))
        assert is_denied(other.run("ls", f"/proc/{node.pid(secret)}/fd"))
    assert "belongs to" in node.weft(others[0].name, "logs", secret, code=None)
    assert "IN-THE-ENVIRONMENT" not in node.weft(others[1].name, "show", "--json", secret, code=None)
    assert ann.run("cat", node.run_dir(secret) / "output.log").stdout == "IN-THE-LOG\n"
    assert ann.run("cat", node.run_dir(secret) / "params.json").returncode == 0


def test_another_user_does_not_signal_a_job_or_its_shim(node: SharedNode, secret: str) -> None:
    pid = node.pid(secret)
    shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for other in node.users[1:]:
        assert is_denied(other.run("/bin/kill", "-0", pid))
        assert is_denied(other.run("/bin/kill", "-KILL", shim))
    assert "belongs to" in node.weft(node.users[1].name, "cancel", "-y", secret, code=None)
    assert "belongs to" in node.weft(node.users[2].name, "exec", secret, "--", "id", code=None)
    assert is_denied(node.users[0].run("/bin/kill", "-KILL", shim)), "a user could end the shim of an own run"


def test_the_worker_s_token_is_out_of_reach_of_jobs(node: SharedNode) -> None:
    ann = node.users[0]
    assert node.gate.worker is not None
    worker = node.gate.worker.pid
    tokens = [str(path) for path in server_folder(node.gate.where.port, node.gate.env).rglob("*") if path.is_file()]
    assert tokens
    script = (
        f"ls -l /proc/self/fd; for each in {' '.join(tokens)} /proc/{worker}/environ /proc/{worker}/fd/0 "
        f"{node.folder}/cluster; do cat $each && echo READ $each; done; kill -0 {worker} && echo SIGNALLED; true"
    )
    job = node.submit(ann, "--gpus", "0", "--", "sh", "-c", script)
    assert node.ended(ann, job)["status"] == "done"
    said = node.weft(ann.name, "logs", job)
    assert "READ" not in said
    assert "SIGNALLED" not in said
    descriptors = [line for line in said.splitlines() if "->" in line]
    assert not [line for line in descriptors if "socket:" in line or "weft/servers" in line], descriptors


def test_runs_on_a_shared_gpu_have_pages_of_their_users(node: SharedNode) -> None:
    script = f"echo $WEFT_DEVICE_PAGE; {WAITS}"
    share = ("--gpus", "1", "--share", "0.4/0.5", "--memory", "1G", "--", "sh", "-c", script)
    runs = {node.submit(user, *share): user for user in node.users[1:]}
    pages = {job: until(lambda job=job: node.log(job).strip()) for job in runs}  # type: ignore[misc]
    for job, user in runs.items():
        assert os.stat(pages[job]).st_uid == user.uid
        assert user.run("test", "-w", pages[job]).returncode == 0
        others = [page for other, page in pages.items() if other != job]
        assert all(is_denied(user.run("cat", page)) for page in others)

    def shares() -> dict[str, float]:
        gpus = json.loads(node.weft(node.users[1].name, "gpus", "--json"))["gpus"]
        return {each["job"]: each["request"] for gpu in gpus for each in gpu.get("shares", [])}

    until(lambda: shares() == dict.fromkeys(runs, 0.4))
    for job, user in runs.items():
        node.weft(user.name, "cancel", "-y", job)
    until(lambda: not any(os.path.exists(page) for page in pages.values()))


def test_users_without_an_account_are_refused_and_so_are_root_and_accounts_of_the_system(node: SharedNode) -> None:
    wrong = {"nobody-knows": "has no account on this node", "root": "has root's rights", "daemon": "below 1000"}
    for name, why in wrong.items():
        job = json.loads(node.weft(name, "submit", "--json", "--chdir", "/", "--gpus", "0", "--", "id"))["ids"][0]
        shown = node.ended(name, job)
        assert (shown["why"], why in shown["detail"]) == ("bad-user", True)
        lines = node.weft(name, "show", job).splitlines()
        (number,) = [number for number, line in enumerate(lines) if why in line]
        assert lines[number + 1].lstrip().startswith(("submit as", "create the account")), "the hint is a line below"


def test_a_token_for_root_comes_with_a_warning(node: SharedNode) -> None:
    said = node.gate.weft("auth", "token", "--port", str(node.gate.where.port), "--user", "root")
    assert "jobs of root run only on nodes whose worker runs all jobs as itself" in said.stderr


def test_output_files_are_opened_with_the_rights_of_the_user(node: SharedNode) -> None:
    ann, ben, _ = node.users
    kept = ben.root / "kept"
    kept.write_text("BEN'S")
    kept.chmod(0o600)
    os.chown(kept, ben.uid, ben.uid)
    job = node.submit(ann, "--gpus", "0", "--output", str(kept), "--", "echo", "OVERWRITTEN")
    shown = node.ended(ann, job)
    assert (shown["status"], shown["why"]) == ("failed", "bad-output")
    assert kept.read_text() == "BEN'S"

    own = node.submit(ann, "--gpus", "0", "--output", "out-%j.txt", "--", "sh", "-c", f"echo HERS; {WAITS}")
    until(lambda: "HERS" in node.log(own))
    assert "HERS" in node.weft(ann.name, "logs", own)
    written = ann.root / f"out-{own}.txt"
    assert written.stat().st_uid == ann.uid
    written.unlink()
    written.symlink_to(kept)  # root would follow it
    assert "BEN'S" not in node.weft(ann.name, "logs", own, code=None)
    node.weft(ann.name, "cancel", "-y", own)


def test_a_working_directory_of_another_user_is_refused(node: SharedNode) -> None:
    ann, ben, _ = node.users
    out = node.weft(ann.name, "submit", "--json", "--gpus", "0", "--chdir", str(ben.root), "--", "ls")
    shown = node.ended(ann, json.loads(out)["ids"][0])
    assert (shown["status"], shown["why"]) == ("failed", "bad-directory")


def test_progress_counts_only_if_the_run_s_user_sends_it(node: SharedNode, secret: str) -> None:
    ann, ben, _ = node.users
    environ = Path(f"/proc/{node.pid(secret)}/environ").read_bytes().split(b"\0")
    path = next(entry for entry in environ if entry.startswith(b"WEFT_SOCKET=")).decode().partition("=")[2]

    def send(who: User, step: int) -> None:
        body = json.dumps({"job": secret, "run": 1, "step": step, "total": 100})
        code = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto({body!r}.encode(), {path!r})"
        sent = who.run("/usr/bin/python3", "-c", code)
        assert sent.returncode == 0, sent.stderr

    send(ben, 99)
    send(ann, 7)
    progress = until(lambda: node.job(ann, secret)["progress"])
    assert progress["step"] == 7
    assert is_denied(ben.run("/usr/bin/python3", "-c", _notify(Path(path).with_name("bell.sock"))))


def _notify(path: Path) -> str:
    return f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', {str(path)!r})"


def test_a_command_next_to_a_job_has_the_rights_of_its_user(node: SharedNode, secret: str) -> None:
    ann = node.users[0]
    said = node.weft(
        ann.name, "exec", secret, "--", "sh", "-c", "id -u; echo $WORD; cat /proc/self/status | grep CapEff"
    )
    assert said.split() == [str(ann.uid), "IN-THE-ENVIRONMENT", "CapEff:", "0000000000000000"]
    assert node.weft(ann.name, "exec", secret, "--", "sh", "-c", "exit 7", code=7) == ""


def test_a_job_with_a_terminal_runs_as_its_user(node: SharedNode) -> None:
    ann = node.users[0]
    terminal, inner = os.openpty()
    words = ["run", "--gpus", "0", "--pty", "--chdir", str(ann.root), "--", "sh", "-c", "id -u; tty"]
    done = subprocess.run(
        [sys.executable, "-m", "weft", *words], env=node.env_of(ann.name), stdin=inner, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    os.close(inner)
    os.close(terminal)
    said = done.stdout + done.stderr
    assert str(ann.uid) in said, said
    assert "/dev/pts/" in said


def test_a_source_tree_belongs_to_the_user(node: SharedNode, tmp_path: Path) -> None:
    ann = node.users[0]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "word.txt").write_text("FROM-THE-TREE")
    for words in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    out = node.weft(
        ann.name, "submit", "--json", "--gpus", "0", "--snapshot", "--chdir", str(tmp_path), "--", "sh", "-c",
        "cat deep/word.txt; touch deep/new; stat -c %U deep deep/word.txt",
    )  # fmt: skip
    job = json.loads(out.splitlines()[0])["ids"][0]
    shown = node.ended(ann, job)
    assert shown["status"] == "done", shown["detail"]
    assert node.weft(ann.name, "logs", job).split() == ["FROM-THE-TREE" + ann.name, ann.name]


@pytest.mark.usefixtures("secret")
def test_a_job_opens_only_the_gpus_that_it_has(node: SharedNode) -> None:
    """One GPU belongs to another job. A command next to a job is limited like the job."""
    ben = node.users[1]
    if not cgroups.find().limits_devices:
        pytest.skip("control groups for devices cannot be made here")
    gpus = [f"/dev/weft-test-{os.getpid()}-{gpu}" for gpu in (0, 1)]
    script = "".join(f"(: < {path}) && echo OPENED {gpu}; " for gpu, path in enumerate(gpus))
    job = node.submit(ben, "--gpus", "1", "--memory", "1G", "--", "sh", "-c", f"{script} echo ready; {WAITS}")
    until(lambda: "ready" in node.log(job))
    own = node.job(ben, job)["place"]
    said = node.log(job)
    held = 0 if "[0]" in own else 1
    assert f"OPENED {held}" in said
    assert f"OPENED {1 - held}" not in said
    assert f"OPENED {1 - held}" not in node.weft(ben.name, "exec", job, "--", "sh", "-c", f"{script} true")
    node.weft(ben.name, "cancel", "-y", job)


def test_runs_survive_a_worker_that_is_killed_and_stop_in_time(node: SharedNode) -> None:
    """Kill the worker, start another, then let it stop a job, which saves its work and ends."""
    ann = node.users[0]
    script = "trap 'echo saved > $WEFT_CKPT_DIR/saved; exit 85' TERM; echo up; while :; do sleep 0.1; done"
    job = node.submit(ann, "--gpus", "0", "--retries", "1", "--", "sh", "-c", script)
    until(lambda: "up" in node.log(job))
    pid = node.pid(job)
    node.kill_worker()
    node.start_worker()
    assert node.pid(job) == pid
    assert node.job(ann, job)["run"] == 1
    until(lambda: node.weft(ann.name, "exec", job, "--", "id", "-u", code=None).strip() == str(ann.uid))
    node.weft(ann.name, "cancel", "-y", job)
    saved = node.folder / "jobs" / job / "checkpoints" / "saved"
    until(saved.exists)
    assert saved.stat().st_uid == ann.uid


def test_a_job_in_a_container_is_refused_when_it_is_submitted(node: SharedNode) -> None:
    ann = node.users[0]
    said = node.weft(ann.name, "submit", "--image", "alpine", "--", "true", code=2)
    assert "no node of this cluster runs containers: its workers run jobs as their submitters" in said
    (ann.root / "a.yaml").write_text("service: a\nrun: x\nimage: alpine\n")
    assert "a.yaml:1: image: no node of this cluster runs containers" in node.weft(
        ann.name, "deploy", str(ann.root / "a.yaml"), code=2
    )
    assert "you are" in node.weft(ann.name, "deploy", str(other_users_service(node)), code=5)


def other_users_service(node: SharedNode) -> Path:
    """The description of a service whose replicas would run as the second user."""
    path = node.users[0].root / "b.yaml"
    path.write_text(f"service: b\nrun: id\nuser: {node.users[1].name}\n")
    return path
