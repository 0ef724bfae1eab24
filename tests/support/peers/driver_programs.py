"""Stand-ins for the programs of NVIDIA's driver, as real programs on PATH: nvidia-smi, nvidia-cuda-mps-control, dcgmi,
nv-hostengine, and for sudo. They keep the state of two GPUs in a file, and write down how they were called."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SMI = """
gpus = load()
words = sys.argv[1:]
if state.exists("broken"):
    sys.exit("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
if words[:2] == ["-pm", "1"]:
    if state.exists("not-root") and "SUDO_UID" not in os.environ:
        print("Unable to set persistence mode for GPU 0: Insufficient Permissions", file=sys.stderr)
        sys.exit(4)
    save([{**gpu, "persistence_mode": "Enabled"} for gpu in gpus])
elif words[0].startswith("--query-gpu="):
    for gpu in gpus:
        print(", ".join(str(gpu[name]) for name in words[0].partition("=")[2].split(",")))
elif words[0] == "--query-compute-apps=gpu_uuid,pid":
    for gpu in gpus:
        for pid in gpu["apps"]:
            print(f"{gpu['uuid']}, {pid}")
elif words[:2] == ["--gpu-reset", "-i"]:
    cleared = {"ecc.errors.uncorrected.volatile.total": 0}
    save([{**gpu, **cleared} if str(gpu["index"]) == words[2] else gpu for gpu in gpus])
else:
    sys.exit(f"unknown call: {words}")
"""
MPS = """
pipe = os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control"
if sys.argv[1:] == ["-d"]:
    os.mkfifo(pipe)
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    with open(pipe) as control:
        control.read()
    os.unlink(pipe)
elif sys.stdin.read() == "quit\\n":
    with open(pipe, "w") as control:
        control.write("quit")
"""
DCGMI = """
if not state.exists("hostengine"):
    sys.exit("Error: unable to establish a connection to the specified host: localhost")
"""
HOSTENGINE = """
state.touch("hostengine")
"""
SUDO = """
if state.exists("no-sudo"):
    sys.exit("sudo: a password is required")
assert sys.argv[1:3] == ["-n", "--"]
os.environ["SUDO_UID"] = "1000"
os.execvp(sys.argv[3], sys.argv[3:])
"""
HEAD = """#!{python} -IS
import json, os, sys

class state:
    root = {root!r}
    def exists(name): return os.path.exists(os.path.join(state.root, name))
    def touch(name): open(os.path.join(state.root, name), "w").close()

def load():
    with open({root!r} + "/gpus.json") as file: return json.load(file)

def save(gpus):
    with open({root!r} + "/gpus.json", "w") as file: json.dump(gpus, file)

with open({root!r} + "/calls", "a") as file: print(os.path.basename(sys.argv[0]), *sys.argv[1:], file=file)
"""


@dataclass
class DriverPrograms:
    root: Path

    @property
    def path(self) -> str:
        """The value of PATH with which they are found first."""
        return f"{self.root}/bin:{os.environ['PATH']}"

    def gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.root / "gpus.json").read_text())
        return found

    def change(self, gpu: int, **values: object) -> None:
        gpus = self.gpus()
        gpus[gpu] |= values
        (self.root / "gpus.json").write_text(json.dumps(gpus))

    def set_ecc_errors(self, gpu: int, count: int) -> None:
        self.change(gpu, **{"ecc.errors.uncorrected.volatile.total": count})

    def mark(self, name: str, *, present: bool = True) -> None:
        """`not-root`: persistence mode is refused without sudo. `no-sudo`: sudo asks for a password. `broken`:
        nvidia-smi fails. `hostengine`: DCGM runs."""
        path = self.root / name
        path.touch() if present else path.unlink(missing_ok=True)

    def calls(self) -> list[str]:
        try:
            return (self.root / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []


def driver_programs(root: Path) -> DriverPrograms:
    (root / "bin").mkdir(parents=True)
    gpu = {"driver_version": "570.86", "persistence_mode": "Disabled", "compute_mode": "Default", "apps": []}
    more = {"ecc.errors.uncorrected.volatile.total": 0}
    gpus = [{"index": index, "uuid": f"GPU-{index}", **gpu, **more} for index in (0, 1)]
    (root / "gpus.json").write_text(json.dumps(gpus))
    head = HEAD.format(python=sys.executable, root=str(root))
    bodies = {"nvidia-smi": SMI, "nvidia-cuda-mps-control": MPS, "dcgmi": DCGMI, "nv-hostengine": HOSTENGINE}
    bodies["sudo"] = SUDO
    for name, body in bodies.items():
        program = root / "bin" / name
        program.write_text(head + body)
        program.chmod(0o755)
    return DriverPrograms(root)
