"""A mark around the work on a batch: while a batch runs, training on the same GPU gives way."""

from __future__ import annotations

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Self


class Batch:
    """A context that is entered with each batch. Outside a replica it does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


_BATCH = Batch()


def batch() -> Batch:
    """Mark the inference work of one batch: `with weft.serve.batch(): model(inputs)`."""
    return _BATCH
