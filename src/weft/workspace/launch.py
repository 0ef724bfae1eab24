"""Builds the job of a config: its command, settings and limits."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.access.wire.convert import variables
from weft.access.wire.messages import JobSpec
from weft.inputs.quantities import FORBIDDEN_IN_NAMES, MAX_NAME_CHARS
from weft.workspace.config import Config
from weft.workspace.tasks import BACKEND_PARAM, HOME_PARAM, NAME_PARAM, RERUN_PARAM, Task, marker_of

RUNNER: Final = Path(__file__).with_name("run_task.py")
TURNS: Final = "turn"
SHELLS: Final = ("bash", "sh")


@dataclass(frozen=True)
class Launch:
    """The settings that all tasks of a workspace share."""

    config: Config
    runtime: Path
    """The private folder of the files that space starts on a GPU."""
    memory_mb: int
    """GPU memory that each task may use."""
    gpus: tuple[int, ...]
    """GPUs that tasks may use."""
    conda: str = ""
    """The conda program; empty: tasks run without conda."""

    def spec(self, task: Task, *, again: float | None = None, begin_at: float | None = None) -> JobSpec:
        """Return the job of a task. Markers from before `again` do not count. It starts no earlier than `begin_at`."""
        config = self.config
        params = {NAME_PARAM: task.name, HOME_PARAM: str(config.home)}
        if config.text("session_backend") != "tmux":
            params[BACKEND_PARAM] = config.text("session_backend")
        if again is not None:
            params[RERUN_PARAM] = "1"
        return JobSpec(
            name=job_name(task.name),
            command=self._command(task, again=again),
            chdir=str(config.path("work_dir")),
            gpus=1,
            gpu_ids=[] if task.gpu is None else [task.gpu],
            gpu_choice=self.gpus if task.gpu is None else [],
            memory_mb=[self.memory_mb],
            max_jobs_per_gpu=config.whole("max_jobs_per_gpu"),
            retries=config.whole("max_retries") if config.is_on("auto_restart_failed") else 0,
            comment=f"workspace {config.task_name}",
            group=config.group,
            params=variables(params.items()),
            begin_at=begin_at,
        )

    def _command(self, task: Task, *, again: float | None) -> list[str]:
        config = self.config
        settings = {
            "task": task.name,
            "marker": str(marker_of(config, task.name)),
            "owner": config.group,
            "logs": str(config.path("log_dir")) if config.is_on("enable_logging") else "",
            "log_cap": str(config.whole("max_log_mb") << 20),
            "scheduler_log": f"{config.scheduler_session}.log",
            "delay": f"{config.number('startup_delay'):g}",
            "turns": str(self.runtime / TURNS),
            "variable": config.text("cuda_visible_devices_var"),
            "wrapped": "yes" if self.conda else "",
            "again": repr(again) if again is not None else "",
        }
        given = [f"{name}={value}" for name, value in settings.items() if value]
        return [sys.executable, "-I", "-S", str(RUNNER), *given, "--", *self.program(task)]

    def program(self, task: Task) -> list[str]:
        """Return the command of the task itself, without the keeper."""
        config = self.config
        words = [interpreter(config, conda=self.conda), script(config), "--config_path", str(task.path)]
        if self.conda:
            name = config.text("conda_env")
            by = ["-p", str(config.path("conda_env"))] if os.sep in name else ["-n", name]
            words = [self.conda, "run", "--no-capture-output", *by, *words]
        before = config.text("pre_command")
        if before:
            shell = next(found for name in SHELLS if (found := shutil.which(name)))
            words = [shell, "-c", f'{before}\nexec "$@"', shell, *words]
        return words


def interpreter(config: Config, *, conda: str) -> str:
    """Return the configured interpreter, else that of the conda environment, else the one that runs weft."""
    given = config.text("python_env")
    if not given:
        return "python" if conda else sys.executable
    return str(config.path("python_env")) if os.sep in given else given


def script(config: Config) -> str:
    """Return the path of the script: in the workspace, else relative to `work_dir`."""
    given = os.path.expanduser(config.text("script_path"))
    is_in_workspace = config.path("work_dir") != config.home and (config.home / given).is_file()
    return str(config.home / given) if is_in_workspace else given


def find_conda(config: Config, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the conda program to use, and a warning if the config names an environment but conda is missing."""
    name = config.text("conda_env")
    if not name:
        return "", ""
    found = shutil.which("conda", path=env.get("PATH")) or env.get("CONDA_EXE", "")
    if found and os.access(found, os.X_OK):
        return found, ""
    return (
        "",
        f"conda is not installed, so conda_env {name} is not used; tasks run with {interpreter(config, conda='')}",
    )


def job_name(name: str) -> str:
    """Return the name of a config's job, without characters that a job's name may not have."""
    plain = "".join("_" if c in FORBIDDEN_IN_NAMES or not c.isprintable() else c for c in name).strip()
    return plain[:MAX_NAME_CHARS] or "config"
