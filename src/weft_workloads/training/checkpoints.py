"""Checkpoints: a folder per step, complete when it has its final name; recorded through `weft.train`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from weft import train
from weft.errors import InputError
from weft_workloads.settings import Settings
from weft_workloads.training.ranks import Ranks

DESCRIPTION: Final = "checkpoint.json"
STATE: Final = "state.pt"


class Store:
    """The checkpoints of a job, or of a folder that the user names. Only the latest is kept."""

    def __init__(self, given: str | None, ranks: Ranks) -> None:
        folder = given or os.environ.get("WEFT_CKPT_DIR", "")
        self.folder = Path(folder) if folder else None
        self.given, self.ranks = given is not None, ranks

    def latest(self) -> Path | None:
        """Return the checkpoint to continue from, the same in every process."""
        found: str | None = None
        if self.ranks.rank == 0:
            found = train.resume_path()
            if found is None and self.given and self.folder is not None and self.folder.is_dir():
                complete = sorted(path for path in self.folder.glob("step-*") if (path / DESCRIPTION).is_file())
                found = str(complete[-1]) if complete else None
        found = self.ranks.share(found)
        return Path(found) if found else None

    def save(self, engine: Any, step: int) -> Path | None:
        """Write a checkpoint, record it, and remove the ones before it. Every process must call it."""
        if self.folder is None:
            return None
        final = self.folder / f"step-{step:09d}"
        partial = self.folder / f".step-{step:09d}.partial"
        try:
            # processes on other nodes may not share the folder
            partial.mkdir(parents=True, exist_ok=True)
            engine.save(partial, step)
        except OSError as error:
            raise InputError(
                f"cannot save {final}: {error}", hint="free space, or give another folder as checkpoints"
            ) from error
        self.ranks.any(False)  # every process has written its part
        if self.ranks.rank == 0:
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            train.checkpoint(final)
            for path in self.folder.glob("step-*"):
                if path != final:
                    shutil.rmtree(path, ignore_errors=True)
        return final


def _describe(folder: Path, step: int, found: Settings, tiny: bool, world: int) -> None:
    size = "tiny" if tiny else "full"
    text = json.dumps({"step": step, "model": found.model.name, "size": size, "processes": world})
    (folder / DESCRIPTION).write_text(text)


def _step_of(folder: Path, found: Settings, tiny: bool) -> int:
    """Return the step of a checkpoint. Reject that of another model."""
    try:
        saved = json.loads((folder / DESCRIPTION).read_text())
        step, model, size = int(saved["step"]), saved["model"], saved["size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} is not a checkpoint: {error}", hint="remove it to begin again") from error
    if (model, size) != (found.model.name, "tiny" if tiny else "full"):
        raise InputError(
            f"{folder} is a checkpoint of {model}, size {size}",
            hint=f"continue with that model and size, or give {found.model.name} another folder as checkpoints",
        )
    return step


def save_replica(
    folder: Path, step: int, found: Settings, tiny: bool, task: Any, optimizer: torch.optim.Optimizer, ranks: Ranks
) -> None:
    """Write the model once, and the state of the task of each process that has one."""
    if ranks.rank == 0:
        state = {"model": task.model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, folder / STATE)
        _describe(folder, step, found, tiny, ranks.world)
    if own := task.state():
        torch.save(own, folder / f"rank-{ranks.rank}.pt")


def load_replica(
    folder: Path, found: Settings, tiny: bool, task: Any, optimizer: torch.optim.Optimizer, ranks: Ranks
) -> int:
    """Restore model, optimizer and task. A node that does not have the files gets them from rank 0."""
    everywhere = not ranks.any(not (folder / STATE).is_file())
    state: Any = None
    if everywhere or ranks.rank == 0:
        state = (_step_of(folder, found, tiny), _load(folder / STATE))
    if not everywhere:
        state = ranks.share(state)
    step, saved = state
    task.model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    if (own := folder / f"rank-{ranks.rank}.pt").is_file():
        task.load(_load(own))
    return int(step)


def _load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}", hint="remove the checkpoint to begin again") from error


# ---- sharded models: each process writes what it holds; another number of processes can read it


def _sharded_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    # flat: the processes of a pipeline have different parameters, and each keeps its own
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    weights, moments = get_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": moments}


def save_sharded(
    folder: Path, step: int, found: Settings, tiny: bool, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Write the part of each process."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as distributed_checkpoint

    distributed_checkpoint.save(_sharded_state(model, optimizer), checkpoint_id=folder)
    if dist.get_rank() == 0:
        _describe(folder, step, found, tiny, dist.get_world_size())


def load_sharded(folder: Path, found: Settings, tiny: bool, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore the part of each process."""
    import torch.distributed.checkpoint as distributed_checkpoint
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

    step = _step_of(folder, found, tiny)
    state = _sharded_state(model, optimizer)
    distributed_checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"],
        options=StateDictOptions(flatten_optimizer_state_dict=True),
    )  # fmt: skip
    return step
