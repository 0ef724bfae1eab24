"""A Slurm of a test's own: munged, slurmctld and four slurmd as real processes on loopback, with fake GPUs."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.running.local_scheduler import until
from support.running.loopback_namespace import needed
from support.running.secured_cluster import free_port

NODES, GPUS = 4, 2
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
SlurmdParameters=config_overrides
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
MinJobAge=60
SchedulerParameters=sched_interval=2,batch_sched_delay=0,sched_min_interval=100000,defer_batch
GresTypes=gpu
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def need_slurm() -> None:
    there = all(
        shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("slurmctld", "slurmd", "munged")
    )
    needed("Slurm", there, "make test installs it for root (Debian: slurmctld slurmd slurm-client munge)")
    needed("root", os.getuid() == 0, "slurmd needs it")


@dataclass
class Slurm:
    root: Path
    env: dict[str, str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> None:
        name = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin") or command[0]
        with (self.root / "daemons.out").open("a") as out:
            self.processes.append(
                subprocess.Popen(
                    [name, *command[1:]], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.root
                )
            )

    def run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def idle_nodes(self) -> int:
        done = subprocess.run(
            ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], env=self.env, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        return len(done.stdout.split())

    def jobs(self, *states: str) -> list[str]:
        """Return the ids of jobs in these states; by default all that have not ended."""
        wanted = ("-t", ",".join(states)) if states else ()
        return self.run("squeue", "-h", *wanted, "-o", "%i").split()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.run("scancel", "--me", "-s", "KILL")
            self.run("scancel", "--me")
            until(lambda: not self.jobs(), 20.0)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def slurm(*, kill_wait: int = 30) -> Iterator[Slurm]:
    """Start four nodes with two GPUs each. `env` of the result makes commands find it."""
    need_slurm()
    root = Path(tempfile.mkdtemp(prefix="weft-slurm-"))
    root.chmod(0o755)
    env = {**os.environ, "SLURM_CONF": f"{root}/slurm.conf"}
    made = Slurm(root, env)
    try:
        _configure(root, kill_wait)
        made.start(
            "munged", "--foreground", "--force", f"--socket={root}/munge.sock", f"--key-file={root}/munge.key",
            f"--pid-file={root}/munged.pid", f"--log-file={root}/munged.log", f"--seed-file={root}/munged.seed",
        )  # fmt: skip
        until((root / "munge.sock").exists)
        made.start("slurmctld", "-D", "-f", f"{root}/slurm.conf")
        for number in range(NODES):
            made.start("slurmd", "-D", "-N", f"node{number}", "-f", f"{root}/slurm.conf")
        until(lambda: made.idle_nodes() == NODES)
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


def _configure(root: Path, kill_wait: int) -> None:
    (root / "state").mkdir()
    (root / "munge.key").write_bytes(secrets.token_bytes(128))
    (root / "munge.key").chmod(0o400)
    lines = []
    for number in range(NODES):
        (root / f"spool-node{number}").mkdir()
        address = f"NodeName=node{number} NodeHostname={platform.node()} NodeAddr=127.0.0.1 Port={free_port()}"
        lines.append(f"{address} CPUs=8 RealMemory=4000 Gres=gpu:{GPUS} State=UNKNOWN")
    for gpu in range(GPUS):
        os.mknod(root / f"nvidia{gpu}", 0o600 | 0o020000, os.makedev(1, 3))  # a device that Slurm can list
    text = CONF.format(host=platform.node(), port=free_port(), root=root, kill_wait=kill_wait, nodes="\n".join(lines))
    (root / "slurm.conf").write_text(text)
    files = ",".join(f"{root}/nvidia{gpu}" for gpu in range(GPUS))
    (root / "gres.conf").write_text(
        f"Name=gpu File={root}/nvidia[0-{GPUS - 1}]\n" if GPUS > 1 else f"Name=gpu File={files}\n"
    )
