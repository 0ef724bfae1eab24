"""From configs to jobs: which files are meant, what each is called, and what runs it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.errors import InputError, nearest
from weft.wire.messages import JobSpec, Variable
from weft.wire.values import LONGEST_NAME, NOT_IN_NAMES
from weft.workspace.config import Config
from weft.workspace.verdict import MARKER

RUNNER: Final = Path(__file__).with_name("run_task.py")
LONGEST_FILE: Final = 255
"""Bytes that a file's name may have."""
TURNS: Final = "turn"
NAME: Final = "config_name"
"""The param of a job that says which config it is."""
HOME: Final = "workspace"
BACKEND: Final = "session_backend"
"""Those that say where its session is to be looked for."""
AGAIN: Final = "rerun"
SHELLS: Final = ("bash", "sh")


@dataclass(frozen=True)
class Task:
    """A config that is to be run."""

    name: str
    path: Path
    gpu: int | None = None
    """The GPU it is pinned to; None: whichever has the most left."""


# ---- which


def all_tasks(config: Config) -> list[Task]:
    """Every config of the workspace, in order."""
    folder, pattern = config.path("config_dir"), config.text("config_pattern")
    if not folder.is_dir():
        where = config.origins["config_dir"]
        raise InputError(f"config_dir {folder} is not a folder", where="" if where == "default" else where)
    if os.path.isabs(pattern) or ".." in Path(pattern).parts:
        where = config.origins["config_pattern"]
        raise InputError(f"bad config_pattern: {pattern[:80]!r}", where=where, hint="it is sought within config_dir")
    try:
        found = sorted(path for path in folder.glob(pattern) if path.is_file() and not _is_hidden(path, pattern))
    except ValueError as error:
        raise InputError(f"bad config_pattern: {error}", where=config.origins["config_pattern"]) from None
    return _named(config, found, [None] * len(found))


def _is_hidden(path: Path, pattern: str) -> bool:
    """What editors leave behind is no config."""
    return path.name.startswith(".") and not os.path.basename(pattern).startswith(".")


def chosen_tasks(config: Config, names: str, gpus: str = "") -> list[Task]:
    """The configs of a list, each pinned to the GPU at its place in the other list, as far as that goes."""
    words = _words(names)
    if not words:
        raise InputError("no config is named", hint='name some: start "a.yml,b.yml"; start alone takes all')
    pins: list[int | None] = [*_gpus(gpus)]
    if len(pins) > len(words):
        raise InputError(
            f"{len(pins)} GPUs for {len(words)} config{'s' if len(words) > 1 else ''}",
            hint="give a GPU for each config, or fewer: the rest is balanced",
        )
    found = [_found(config, word) for word in words]
    missing = [word for word, path in zip(words, found, strict=True) if path is None]
    if missing:
        folder = config.path("config_dir")
        known = [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
        near = f"; the nearest to {missing[0]} is {nearest(missing[0], known)[0]}" if known else ""
        raise InputError(
            f"there is no config {', '.join(missing)}", hint=f"looked in {folder}{near}; nothing was started"
        )
    paths = [path for path in found if path is not None]
    return _named(config, paths, pins + [None] * (len(words) - len(pins)))


def _found(config: Config, word: str) -> Path | None:
    candidates = (config.path("config_dir") / word, config.home / word)
    return next((path for path in candidates if path.is_file()), None)


def _words(text: str) -> list[str]:
    """The words of a list; it may end with a comma, but have no gap: what follows would move by a place."""
    words = [part.strip() for part in text.strip().removesuffix(",").split(",")]
    if words == [""]:
        return []
    if "" in words:
        raise InputError(f"nothing stands at place {words.index('') + 1} of {text!r}", hint="such as a.yml,b.yml")
    return words


def _gpus(text: str) -> list[int]:
    found = []
    for word in _words(text):
        if not (word.isascii() and word.isdecimal() and len(word) < 9):
            raise InputError(f"{word[:40]!r} is not the number of a GPU", hint='such as "0,0,1"; see weft gpus')
        found.append(int(word))
    return found


def _named(config: Config, paths: Sequence[Path], pins: Sequence[int | None]) -> list[Task]:
    by_name: dict[str, Path] = {}
    tasks = []
    for path, pin in zip(paths, pins, strict=True):
        name = _name(config, path)
        if name in by_name:
            raise InputError(
                f"{path.name} and {by_name[name].name} are both called {name}" if path != by_name[name]
                else f"{path.name} is named twice",
                hint="their logs and markers would be the same; give them names of their own",
            )  # fmt: skip
        by_name[name] = path
        tasks.append(Task(name, path, pin))
    return tasks


def _name(config: Config, path: Path) -> str:
    """Without its suffix; with the folders below config_dir, if any."""
    try:
        relative = path.relative_to(config.path("config_dir"))
    except ValueError:
        relative = Path(path.name)
    name = "_".join(relative.with_suffix("").parts)
    try:
        size = len(f"{name}{MARKER}.before".encode())
    except UnicodeEncodeError:
        raise InputError(f"{os.fsencode(path.name)!r} is not UTF-8 text", hint="give the config another name") from None
    if size > LONGEST_FILE:
        raise InputError(f"{path.name} is too long a name", hint="give the config a shorter one")
    return name


# ---- markers


def marker_of(config: Config, name: str) -> Path:
    return config.path("output_dir") / f"{name}{MARKER}"


# ---- what runs it


@dataclass(frozen=True)
class Launch:
    """What all tasks of a workspace are started with."""

    config: Config
    runtime: Path
    """Where turns are taken, for owner and scheduler alone."""
    memory_mb: int
    """What a task may count on having of its GPU."""
    gpus: tuple[int, ...]
    """Those that may be used."""
    conda: str = ""
    """The program, where it is to be used."""
    now: float = 0.0

    def spec(self, task: Task, *, again: bool = False) -> JobSpec:
        config = self.config
        params = {NAME: task.name, HOME: str(config.home)}
        if config.text("session_backend") != "tmux":
            params[BACKEND] = config.text("session_backend")
        if again:
            params[AGAIN] = "1"
        return JobSpec(
            name=job_name(task.name),
            command=self._command(task, again=again),
            chdir=str(config.path("work_dir")),
            gpus=1,
            gpu_ids=[] if task.gpu is None else [task.gpu],
            gpu_pool=self.gpus if task.gpu is None else [],
            memory_mb=[self.memory_mb],
            max_jobs_per_gpu=config.whole("max_jobs_per_gpu"),
            retries=config.whole("max_retries") if config.is_on("auto_restart_failed") else 0,
            comment=f"workspace {config.task_name}",
            group=config.group,
            params=[Variable(name=name, value=value) for name, value in params.items()],
        )

    def _command(self, task: Task, *, again: bool) -> list[str]:
        config = self.config
        settings = {
            "task": task.name,
            "marker": str(marker_of(config, task.name)),
            "owner": config.group,
            "logs": str(config.path("log_dir")) if config.is_on("enable_logging") else "",
            "scheduler_log": f"{config.scheduler_session}.log",
            "delay": f"{config.number('startup_delay'):g}",
            "turns": str(self.runtime / TURNS),
            "variable": config.text("cuda_visible_devices_var"),
            "wrapped": "yes" if self.conda else "",
            "again": repr(self.now) if again else "",
        }
        given = [f"{name}={value}" for name, value in settings.items() if value]
        return [sys.executable, "-I", "-S", str(RUNNER), *given, "--", *self.program(task)]

    def program(self, task: Task) -> list[str]:
        """The task's own command."""
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
    """The one that is given; else that of the conda environment, else the one that runs weft."""
    given = config.text("python_env")
    if not given:
        return "python" if conda else sys.executable
    return str(config.path("python_env")) if os.sep in given else given


def script(config: Config) -> str:
    """As it is seen from `work_dir`; one that is not there, but in the workspace, is meant as well."""
    given = os.path.expanduser(config.text("script_path"))
    is_elsewhere = not (config.path("work_dir") / given).is_file() and (config.home / given).is_file()
    return str(config.home / given) if is_elsewhere else given


def find_conda(config: Config, env: Mapping[str, str]) -> tuple[str, str]:
    """The conda program to use, and a warning where there should be one and is none."""
    name = config.text("conda_env")
    if not name:
        return "", ""
    found = shutil.which("conda", path=env.get("PATH")) or env.get("CONDA_EXE", "")
    if found and os.access(found, os.X_OK):
        return found, ""
    return "", f"there is no conda, so conda_env {name} is not used; tasks run with {interpreter(config, conda='')}"


def job_name(name: str) -> str:
    """As the queue shows it: without what a job's name may not hold."""
    plain = "".join("_" if c in NOT_IN_NAMES or not c.isprintable() else c for c in name).strip()
    return plain[:LONGEST_NAME] or "config"
