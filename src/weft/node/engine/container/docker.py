"""Docker: a daemon owns the containers. The program only passes on output, signals and the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from weft.node.engine.container.oci import OciRuntime, common_flags
from weft.node.engine.container.port import Answer, ContainerSpec, state_of


class Docker(OciRuntime):
    name: str = "docker"
    writes_pid_file: bool = False

    def ask(self) -> Sequence[str]:
        return ["info", "--format", "{{json .}}"]

    def read_answer(self, program: str, text: str) -> Answer | None:
        found = state_of(text)
        if not found.get("ServerVersion"):
            return None  # the program is installed, but no daemon answers
        rootless = any("rootless" in str(option) for option in found.get("SecurityOptions") or ())
        return Answer(
            self.name, program, str(found["ServerVersion"]), rootless, bool(found.get("MemoryLimit")),
            has_init=bool(found.get("InitBinary")),
        )  # fmt: skip

    def run(self, spec: ContainerSpec, answer: Answer) -> Sequence[str]:
        # docker's init then signals the whole process group of the command, as Weft does elsewhere
        flags = ["--env", "TINI_KILL_PROCESS_GROUP=1"] if answer.has_init else []
        if not answer.rootless and spec.user != (0, 0):
            flags += ["--user", f"{spec.user[0]}:{spec.user[1]}"]
        if spec.selinux:
            flags += ["--security-opt", "label=disable"]
        if spec.devices.gpus and spec.devices.nvidia:
            # docker reads the value as one record of a CSV file: the quotes keep the commas in it
            flags += ["--gpus", f'"device={",".join(spec.devices.gpus)}"']
        return ["run", *flags, *common_flags(spec, answer), spec.image, *spec.command]
