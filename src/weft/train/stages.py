"""The stages of a training step: `with stage("gpu"):` and `for batch in stages(loader):`.

In a weave, a job takes turns with the others: one of them computes while another loads data or sends gradients.
Outside a weave the stages begin at once, and `stages` returns the loader as it is.
"""

from __future__ import annotations

from weft.train import ranks
from weft.train.turns import NAMES, turns

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Final, TypeVar

    from weft.train.ranks import Ranks

    Batch = TypeVar("Batch")

_END: Final = object()


class FreeStage:
    """A stage outside a weave."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class Stage:
    """A stage of a run that is or may be woven. Inside another stage it belongs to that one."""

    __slots__ = ("_insist", "_is_inner", "_name", "_others")

    def __init__(self, name: str, insist: bool = False) -> None:
        self._name, self._insist = name, insist
        self._others: Ranks | None = None
        self._is_inner = False

    def __enter__(self) -> None:
        own, name = turns(), self._name
        self._is_inner = own.is_held(name) or (name != "data" and (own.is_held("gpu") or own.is_held("net")))
        if self._is_inner:
            return
        self._others = ranks.all_ranks() if name != "data" else None
        if self._others is None:
            own.begin(name, insist=self._insist)
        else:
            own.begin_together(name, self._others, insist=self._insist)
        if name == "gpu" and own.recorder is not None:
            own.recorder.end_step(at_begin=True)

    def __exit__(self, *_: object) -> None:
        if self._is_inner:
            return
        if self._others is None:
            turns().end(self._name)
        else:
            turns().end_together(self._name, self._others)


_FREE: Final = FreeStage()


def stage(name: str, *, insist: bool = False) -> FreeStage | Stage:
    """Return a context for the stage `data`, `gpu` or `net` of a step.

    It waits for the turn of this job. If the job is asked to stop meanwhile, it raises StopRequested, unless the caller
    insists. Rank 0 waits for the turn and the other ranks wait for rank 0: call it in all ranks, or in none.
    """
    if name not in NAMES:
        raise ValueError(f"unknown stage {name!r}: use {', '.join(NAMES)}")
    own = turns()
    counts = own.is_possible or own.has_named_device or own.recorder is not None
    return Stage(name, insist) if counts else _FREE


def stages(loader: Iterable[Batch], *, ahead: bool = True) -> Iterable[Batch]:
    """Return the batches of a loader, each loaded in a data stage.

    In a weave, a thread loads the next batch while the step computes, unless the loader has its own workers.
    `ahead=False` loads it afterwards: then random numbers are drawn in the same order as outside a weave.
    """
    own = turns()
    if not own.is_possible and own.recorder is None:
        return loader
    return Batches(loader, ahead and not getattr(loader, "num_workers", 0))


class Batches:
    """The batches of a loader in a run that is or may be woven."""

    def __init__(self, loader: Iterable[Any], ahead: bool) -> None:
        self._loader, self._ahead = loader, ahead

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        batches, reader, is_loading = iter(self._loader), None, False

        def load() -> Any:
            with stage("data"):
                return next(batches, _END)

        try:
            while True:
                was_loading, is_loading = is_loading, False
                batch = reader.result() if reader is not None and was_loading else load()
                if batch is _END:
                    return
                if self._ahead and turns().is_woven:
                    reader = reader or Reader(load)
                    reader.start()
                    is_loading = True
                yield batch
        finally:
            if reader is not None:
                reader.close(is_loading)


class Reader:
    """A thread that loads one batch at a time, on request."""

    def __init__(self, load: Callable[[], Any]) -> None:
        import queue
        import threading

        self._load = load
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="weft-reader", daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._requests.put(True)

    def result(self) -> Any:
        batch, error = self._results.get()
        if error is not None:
            raise error
        return batch

    def close(self, is_loading: bool) -> None:
        """End the thread. Wait for the batch that it loads: the loader may be used again afterwards."""
        if is_loading:
            self._results.get()
        self._requests.put(False)
        self._thread.join()

    def _run(self) -> None:
        while self._requests.get():
            try:
                self._results.put((self._load(), None))
            except BaseException as error:  # raised again in the thread that asked
                self._results.put((None, error))
