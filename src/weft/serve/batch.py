"""A mark around the work on a batch: while a batch runs, training on the same GPU gives way."""

from __future__ import annotations

from weft.train.device_page import process

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.train.device_page.process import FreeBatch, MarkedBatch


def batch(*, llm: bool = False) -> FreeBatch | MarkedBatch:
    """Mark the inference work of one batch: `with weft.serve.batch(): model(inputs)`.

    `llm` says that batches generate tokens. Outside a replica that shares its GPU the mark does nothing.
    """
    return process.batch(llm=llm)
