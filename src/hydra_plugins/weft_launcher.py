"""The launcher `weft` of Hydra: `python train.py -m hydra/launcher=weft lr=0.1,0.01` runs each job with Weft.

A job runs the script again, with its overrides: nothing is pickled. Hydra imports this module whenever it starts, so
the module imports no more of Weft than it needs to be found.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import version
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

if TYPE_CHECKING:
    from weft.access.client.api import JobHandle

log = logging.getLogger(__name__)
NOT_PASSED_ON = ("hydra/launcher", "hydra/sweeper", "hydra.launcher", "hydra.sweep", "hydra.mode", "hydra.run.dir")
"""Overrides that concern the sweep itself; `hydra.sweep` includes `hydra.sweeper`."""
RETURN_FILE = ".hydra/weft_return.json"


CONFIG: dict[str, Any] = {
    "_target_": "hydra_plugins.weft_launcher.WeftLauncher",
    **dict.fromkeys(("gpus", "memory", "cpus", "mem", "time", "priority", "retries")),
    "scheduler": None,
    "keys": {},
}
"""The settings `hydra.launcher.*`: keys of `weft.submit`, the scheduler (HOST:PORT of a cluster, or local; None: as for
all commands), and in `keys` any other keys. No dataclass: Hydra executes this module without registering it."""
ConfigStore.instance().store(group="hydra/launcher", name="weft", node=CONFIG, provider="weft")


class WeftLauncher(Launcher):
    def __init__(self, scheduler: str | None = None, keys: dict[str, Any] | None = None, **named: Any) -> None:
        self._scheduler = scheduler
        given = OmegaConf.to_container(keys) if isinstance(keys, DictConfig) else keys
        self._keys: dict[str, Any] = {
            **{key: value for key, value in named.items() if value is not None},
            **(given or {}),
        }
        self._config: Any = None
        self._context: Any = None
        self._sweep = ""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        del task_function  # the job runs the script, which calls it
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit the jobs, wait for all of them, and return how each ended."""
        from weft.access.client.api import connection, submit_many
        from weft.access.endpoints.config import scheduler_address
        from weft.access.jobspec.trials import new_sweep_name

        setup_globals()
        configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        if not self._sweep:
            known = connection(scheduler_address(self._scheduler)).sweeps().sweeps
            self._sweep = new_sweep_name(sys.argv[:1], [each.sweep for each in known])
        numbered = list(enumerate(map(list, job_overrides), start=initial_job_idx))
        returns = [self._prepare(index, overrides) for index, overrides in numbered]
        jobs = [self._job(index, overrides, made) for (index, overrides), made in zip(numbered, returns, strict=True)]
        handles = submit_many(jobs, scheduler=self._scheduler)
        log.info(f"Weft runs {len(handles)} jobs: weft sweep results {self._sweep}")
        for handle, found in zip(handles, returns, strict=True):
            _finish(found, handle)
        return returns

    def _prepare(self, index: int, overrides: list[str]) -> JobReturn:
        """Return what is known of a job before it runs, as `hydra.core.utils.run_job` finds it."""
        log.info(f"\t#{index} : {' '.join(filter_overrides(overrides))}")
        config = self._context.config_loader.load_sweep_config(self._config, overrides)
        task_config, hydra_config, known = copy.deepcopy(config), HydraConfig.instance(), HydraConfig.instance().cfg
        with read_write(task_config), open_dict(task_config):
            del task_config["hydra"]
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = index
        try:
            hydra_config.set_config(config)  # its resolvers read the job's number there
            folder = os.path.abspath(os.path.join(str(config.hydra.sweep.dir), str(config.hydra.sweep.subdir)))
            with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
                config.hydra.runtime.output_dir = folder
            hydra_config.set_config(config)
            hydra = copy.deepcopy(hydra_config.cfg)
        finally:
            hydra_config.cfg = known
        chdir = config.hydra.job.chdir
        moves = not version.base_at_least("1.2") if chdir is None else chdir
        task = OmegaConf.to_container(config.hydra.overrides.task)
        name = JobRuntime.instance().get("name")
        return JobReturn(task, task_config, hydra, folder if moves else os.getcwd(), name)

    def _job(self, index: int, overrides: Sequence[str], made: JobReturn) -> dict[str, Any]:
        """Return the job that runs the script with these overrides."""
        folder = _folder(made)
        shared = OmegaConf.to_container(self._config.hydra.overrides.hydra, resolve=False)  # they may name the job
        passed_on = [each for each in (*overrides, *shared) if not each.startswith(NOT_PASSED_ON)]
        own = [
            "hydra.mode=RUN", f"hydra.run.dir={_quoted(folder)}", f"hydra.job.num={index}", f"hydra.job.id={index}",
            f"++hydra.callbacks.weft={{_target_: weft.access.adapters.hydra_return.KeepReturnValue, "
            f"path: {_quoted(folder / RETURN_FILE)}}}",
        ]  # fmt: skip
        return {
            "command": [sys.executable, *_script(), *_config_flags(), *passed_on, *own],
            "name": f"{self._sweep}-{index}", "group": self._sweep, "params": _params(filter_overrides(overrides)),
            **self._keys, "sweep": self._sweep,
        }  # fmt: skip


def _folder(made: JobReturn) -> Path:
    """Return the folder of a job's files."""
    return Path(made.hydra_cfg.hydra.runtime.output_dir)


def _quoted(path: Path) -> str:
    """Return a path as a value of an override, whatever characters it has."""
    text = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _script() -> list[str]:
    """Return how this program was started: as a module, or as a file."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return ["-m", spec.name] if spec is not None else [sys.argv[0]]


def _config_flags() -> list[str]:
    """Return the flags of this program that choose its config."""
    from hydra._internal.utils import get_args_parser

    args, _ = get_args_parser().parse_known_args()
    given = {"--config-path": args.config_path, "--config-name": args.config_name, "--config-dir": args.config_dir}
    return [word for flag, value in given.items() if value for word in (flag, value)]


def _params(overrides: Sequence[str]) -> dict[str, str]:
    """Return the overrides that set a value, by name, for the table of results."""
    import re

    found = (each.lstrip("+~").partition("=") for each in overrides)
    return {
        name: value for name, _, value in found if value and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name)
    }


def _finish(found: JobReturn, handle: JobHandle) -> None:
    code = handle.wait()
    file = _folder(found) / RETURN_FILE
    if code == 0 and file.exists():
        found.status = JobStatus.COMPLETED
        found.return_value = json.loads(file.read_text())
    else:
        found.status = JobStatus.FAILED
        last = handle.logs(lines=20)
        found.return_value = RuntimeError(f"job {handle.id} is {handle.status} with exit code {code}\n{last}")
