"""A stand-in for docker: a program, and a daemon in this process that owns the containers. Apptainer's is a script.

A container is a process of this process: no isolation, but its owner, name, labels, state and output are docker's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
words = sys.argv[1:]
def call(**request):
    line = socket.socket(socket.AF_UNIX); line.connect({path!r})
    socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
    answer = b""
    while part := line.recv(65536): answer += part
    return json.loads(answer)
if words[0] == "run":
    name = words[words.index("--name") + 1]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda got, _: call(words=["kill", "--signal", signal.Signals(got).name, name]))
answer = call(words=words, env=dict(os.environ))
sys.stdout.write(answer["out"]); sys.stderr.write(answer["err"]); sys.exit(answer["code"])
"""
APPTAINER = """#!/bin/sh
[ "$1" = version ] && { echo 1.3.0; exit; }
shift
echo "$@" >> "$0.calls"
while [ $# -gt 0 ]; do case "$1" in
  --bind) shift 2;; --pwd) cd "$2"; shift 2;; --*) shift;; *) break;; esac; done
case "$1" in *none*) echo "FATAL:   could not open image $1" >&2; exit 255;; esac
shift
for name in $(env | sed -n 's/^APPTAINERENV_\\([A-Za-z0-9_]*\\)=.*/\\1/p'); do
  eval "export $name=\\"\\$APPTAINERENV_$name\\""; done
exec "$@"
"""
WITH_VALUE = {
    "--name", "--network", "--ipc", "--label", "--volume", "--workdir", "--memory", "--memory-swap", "--cpus", "--env",
    "--gpus", "--user", "--device",
}  # fmt: skip


class DockerStandIn:
    """The daemon, and a folder for PATH with the programs docker and apptainer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, str(folder / "docker.sock")
        self.containers: dict[str, subprocess.Popen[bytes]] = {}
        self.runs: list[list[str]] = []
        for name, text in (("docker", CLIENT.format(python=sys.executable, path=self.path)), ("apptainer", APPTAINER)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(16)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.socket.close()
        for process in self.containers.values():
            process.kill()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with line:
            text, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
            request = json.loads(text)
            code, out, err = self._act(request["words"], request.get("env", {}), streams)
            for each in streams:
                os.close(each)
            with contextlib.suppress(OSError):  # the program was killed meanwhile
                line.sendall(json.dumps({"code": code, "out": out, "err": err}).encode())

    def _act(self, words: list[str], env: dict[str, str], streams: list[int]) -> tuple[int, str, str]:
        verb, name = words[0], words[-1]
        if verb == "info":
            return 0, json.dumps({"ServerVersion": "28.0", "MemoryLimit": True, "InitBinary": "docker-init"}), ""
        if verb == "run":
            return self._run(words, env, streams)
        if verb == "ps":
            return 0, "".join(f"{each}\n" for each in self.containers), ""
        process = self.containers.get(name)
        if process is None:
            return 1, "", f"Error response from daemon: No such container: {name}"
        if verb == "container":
            running = process.poll() is None
            state = {"Running": running, "Pid": process.pid, "StartedAt": "2026-01-01", "OOMKilled": False}
            return 0, json.dumps([{"State": state}]), ""
        if verb == "kill":
            process.send_signal(signal.Signals[words[words.index("--signal") + 1]])
        elif verb == "rm":
            process.kill()
            process.wait()
            del self.containers[name]
        return 0, "", ""

    def _run(self, words: list[str], env: dict[str, str], streams: list[int]) -> tuple[int, str, str]:
        self.runs.append(words)
        at, given = 1, dict[str, Any]()
        container_env = {"PATH": "/usr/bin:/bin"}
        while words[at].startswith("--"):
            if words[at] == "--env":
                name, equals, value = words[at + 1].partition("=")
                container_env[name] = value if equals else env[name]
            given[words[at]] = words[at + 1]
            at += 2 if words[at] in WITH_VALUE else 1
        image, command = words[at], words[at + 1 :]
        if "none" in image:
            return 125, "", f"docker: Error response from daemon: pull access denied for {image}"
        process = subprocess.Popen(
            command, stdin=streams[0], stdout=streams[1], stderr=streams[2], env=container_env,
            cwd=given.get("--workdir", "/"), start_new_session=True,
        )  # fmt: skip
        self.containers[given["--name"]] = process
        code = process.wait()
        return (code if code >= 0 else 128 - code), "", ""


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
