"""`weft run --pty` and `weft exec` as people use them: at a real terminal, next to a real job."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import PATIENCE_S, Site, site, until


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site({"gpus": "0,1"}) as made:
        yield made


class Screen:
    """A terminal with a `weft` command in it."""

    def __init__(self, here: Site | Cluster, *words: str) -> None:
        self.master, terminal = os.openpty()
        self.resize(30, 100)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft", *words], env={**here.env, "TERM": "xterm-256color"}, cwd=here.root,
            stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(terminal)
        os.set_blocking(self.master, False)
        self.seen = b""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def shows(self, text: str) -> None:
        """Until it has shown this since the last time."""
        deadline = time.monotonic() + PATIENCE_S
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self._read()
        self.seen = self.seen.partition(text.encode())[2]

    def _read(self) -> None:
        try:
            self.seen += os.read(self.master, 65536)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            self.process.wait(PATIENCE_S)
            time.sleep(0.02)

    def ends(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.seen
            self._read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


@contextmanager
def screen(here: Site | Cluster, *words: str) -> Iterator[Screen]:
    made = Screen(here, *words)
    try:
        yield made
    finally:
        made.close()


# ---- scenes that play on this machine and on a cluster


def see_the_terminal(at: Screen) -> None:
    at.type("tty; stty size; echo gpu=$WEFT_GPU_IDS term=$TERM.\n")
    at.shows("/dev/pts/")
    at.shows("30 100")
    at.shows("gpu=0 term=xterm-256color.")


def interrupt_a_command(at: Screen) -> None:
    at.type("sh -c \"echo be''gun; exec sleep 600\"\n")
    at.shows("begun")
    at.type("\x03")


def resize_the_window(at: Screen) -> None:
    at.type("trap 'stty size' WINCH; echo rea''dy\n")
    at.shows("ready")
    at.resize(41, 123)
    at.type("\n")
    at.shows("41 123")


def exit_with(at: Screen, code: int) -> None:
    at.type(f"exit {code}\n")
    assert at.ends() == code


def see_that_it_is_up(at: Screen) -> None:
    at.type("echo up''.\n")
    at.shows("up.")


def see_much_output(here: Site | Cluster) -> None:
    with screen(here, *SHELL, "-c", "seq 1 100000; echo the e''nd") as at:
        at.shows("99999\r\n100000\r\nthe end")
        assert at.ends() == 0


SHELL = ("run", "-q", "--gpus", "1", "--pty", "--", "sh")


def test_a_shell_has_a_terminal_with_the_size_of_the_window(here: Site) -> None:
    with screen(here, *SHELL) as at:
        see_the_terminal(at)
        resize_the_window(at)
        exit_with(at, 7)


def test_ctrl_c_interrupts_the_command_and_not_the_job(here: Site) -> None:
    with screen(here, *SHELL) as at:
        interrupt_a_command(at)
        at.type("echo still he''re\n")
        at.shows("still here")
        exit_with(at, 0)


def test_what_was_on_the_terminal_is_in_the_log(here: Site) -> None:
    with screen(here, *SHELL, "-c", "echo for the log; exit 3") as at:
        at.shows("for the log")
        assert at.ends() == 3
    assert "for the log" in here.weft("logs", "@").stdout


def test_much_output_comes_through_complete(here: Site) -> None:
    see_much_output(here)


def test_a_terminal_that_is_closed_ends_the_job(here: Site) -> None:
    with screen(here, *SHELL) as at:
        see_that_it_is_up(at)
        with here.client() as client:
            (job,) = client.queue().jobs
        at.process.kill()
    with here.client() as client:
        assert client.wait(job.id).status in ("failed", "done")


def test_a_cancelled_shell_ends_without_its_grace(here: Site) -> None:
    with screen(here, "run", "-q", "--gpus", "1", "--grace", "600s", "--pty", "--", "bash", "-i") as at:
        see_that_it_is_up(at)
        with here.client() as client:
            (job,) = client.queue().jobs
        here.weft("cancel", "-y", job.id, check=True)
        assert at.ends() != 0
    with here.client() as client:
        assert client.wait(job.id).status == "cancelled"


def test_without_a_terminal_it_is_refused(here: Site) -> None:
    done = here.weft(*SHELL, stdin="exit\n")
    assert done.returncode == 2
    assert "--pty needs a terminal" in done.stderr


# ---- on a cluster


@pytest.fixture(scope="module")
def there() -> Iterator[Cluster]:
    with cluster() as made:
        made.work("n1")
        yield made


def test_a_shell_on_a_node_of_a_cluster_is_as_one_here(there: Cluster) -> None:
    with screen(there, *SHELL) as at:
        see_the_terminal(at)
        interrupt_a_command(at)
        resize_the_window(at)
        exit_with(at, 7)


def test_much_output_of_a_node_comes_through_complete(there: Cluster) -> None:
    see_much_output(there)


def test_a_client_that_is_killed_ends_its_shell_on_the_node(there: Cluster) -> None:
    with screen(there, *SHELL) as at:
        see_that_it_is_up(at)
        (job,) = there.json("queue")["jobs"]
        at.process.kill()
    there.until_status(job["id"], "failed", "done")


# ---- exec


@pytest.fixture
def job(here: Site) -> Iterator[str]:
    with here.client() as client:
        made = here.submit(client, "sleep", "600", gpus="1", name="exec target", env="COLOUR=green")
        until(lambda: client.job(made).status == "running")
        yield made
        client.change("cancel", [made])
        client.wait(made)


def test_a_command_runs_with_the_environment_and_directory_of_the_job(here: Site, job: str) -> None:
    done = here.weft("exec", job, "--", "sh", "-c", "echo $WEFT_JOB_ID $COLOUR gpu=$CUDA_VISIBLE_DEVICES; pwd; exit 9")
    assert done.stdout.splitlines() == [f"{job} green gpu=0", str(here.root)]
    assert done.returncode == 9


def test_a_job_of_this_machine_runs_on_no_other_node(here: Site, job: str) -> None:
    wrong = here.weft("exec", "--node", "n9", job, "--", "true")
    assert (wrong.returncode, f"--node: job {job} does not run on 'n9'" in wrong.stderr) == (2, True)


def test_a_command_reads_standard_input(here: Site, job: str) -> None:
    assert here.weft("exec", job, "--", "cat", stdin="data\n").stdout == "data\n"


def test_a_signal_counts_as_in_a_shell(here: Site, job: str) -> None:
    assert here.weft("exec", job, "--", "sh", "-c", "kill -9 $$").returncode == 137


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_what_cannot_be_executed_says_why(here: Site, job: str, program: str, code: int) -> None:
    done = here.weft("exec", job, "--", program)
    assert (done.returncode, program in done.stderr) == (code, True)


def test_a_command_ends_with_its_job(here: Site, job: str) -> None:
    command = [sys.executable, "-m", "weft", "exec", job, "--", "sh", "-c", "echo up; exec sleep 600"]
    process = subprocess.Popen(command, env=here.env, cwd=here.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    here.weft("cancel", "-y", job, check=True)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert f"the run of job {job} has ended".encode() in told


def test_only_a_running_job_has_a_place_to_run_commands(here: Site) -> None:
    with here.client() as client:
        waiting = here.submit(client, "true", gpus="0", hold="true")
        done = here.weft("exec", waiting, "--", "true")
        client.change("cancel", [waiting])
    assert done.returncode == 6
    assert f"job {waiting} does not run: it is held" in done.stderr


@pytest.fixture
def far_job(there: Cluster) -> Iterator[str]:
    job = there.submit("sleep", "600", flags=("--gpus", "1", "--env", "COLOUR=green"))
    there.until_status(job, "running")
    yield job
    there.weft("cancel", "-y", job, code=None)
    there.until_status(job, "cancelled")


def test_a_command_on_a_node_has_the_environment_and_directory_of_the_job(there: Cluster, far_job: str) -> None:
    script = "echo $WEFT_JOB_ID $COLOUR gpu=$CUDA_VISIBLE_DEVICES; pwd; echo oops >&2; exit 9"
    done = there.call("exec", far_job, "--", "sh", "-c", script)
    assert done.stdout.splitlines() == [f"{far_job} green gpu=0", str(there.root), "oops"], done.stderr
    assert done.returncode == 9


def test_a_command_runs_on_the_first_node_of_a_gang_or_on_the_one_that_is_named(there: Cluster) -> None:
    there.work("n2")
    gang = there.submit("sleep", "600", flags=("--gpus", "4"))
    there.until_status(gang, "running")
    where = ("sh", "-c", "echo $WEFT_NODE_RANK of $WEFT_NODELIST")
    (first, second) = there.call("exec", gang, "--", *where).stdout.split()[2].split(",")
    assert there.call("exec", gang, "--", *where).stdout == f"0 of {first},{second}\n"
    assert there.call("exec", "--node", second, gang, "--", *where).stdout == f"1 of {first},{second}\n"
    wrong = there.call("exec", "--node", "n9", gang, "--", *where)
    assert wrong.returncode == 3
    assert f"job {gang} does not run on 'n9'\n  its nodes: {first}, {second}" in wrong.stderr
    there.weft("cancel", "-y", gang)
    there.until_status(gang, "cancelled")
    there.end("n2")


def test_a_command_on_a_node_reads_all_of_standard_input(there: Cluster, far_job: str) -> None:
    text = "".join(f"{number}\n" for number in range(200_000))
    done = there.call("exec", far_job, "--", "cat", stdin=text)
    assert (done.returncode, done.stdout == text) == (0, True), done.stderr


def test_a_command_on_a_node_that_leaves_input_unread_loses_no_output(there: Cluster, far_job: str) -> None:
    text = "".join(f"{number}\n" for number in range(1_000_000))
    for _ in range(3):
        done = there.call("exec", far_job, "--", "head", "-c", "900000", stdin=text)
        assert (done.returncode, done.stdout == text[:900_000]) == (0, True), done.stderr


def test_a_command_on_a_node_reads_empty_input(there: Cluster, far_job: str) -> None:
    assert there.call("exec", far_job, "--", "cat", stdin="").returncode == 0


@pytest.mark.parametrize(("words", "code"), [(("sh", "-c", "kill -9 $$"), 137), (("no-such-program",), 127)])
def test_an_exit_on_a_node_counts_as_in_a_shell(
    there: Cluster, far_job: str, words: tuple[str, ...], code: int
) -> None:
    assert there.call("exec", far_job, "--", *words).returncode == code


def test_a_command_on_a_node_has_a_terminal_if_the_user_has_one(there: Cluster, far_job: str) -> None:
    with screen(there, "exec", far_job, "--", "sh") as at:
        at.type("tty; stty size\n")
        at.shows("/dev/pts/")
        at.shows("30 100")
        at.type("exit 5\n")
        assert at.ends() == 5


def test_a_command_on_a_node_ends_with_its_job(there: Cluster, far_job: str) -> None:
    with screen(there, "exec", far_job, "--", "sh", "-c", "echo u''p.; exec sleep 600") as at:
        at.shows("up.")
        there.weft("cancel", "-y", far_job)
        assert at.ends() == 143
    until(lambda: not list(there.run_folder("n1", far_job).glob("exec-*")))
