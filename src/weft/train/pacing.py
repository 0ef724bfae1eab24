"""Pacing: a training job that shares its GPU gives way to inference between the layers of a step."""

from __future__ import annotations

from weft.train.device_page import process

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Model = TypeVar("Model", bound=Any)


def pace(model: Model) -> Model:
    """Gate the layers of a torch model: while inference runs on the GPU, training goes on at a lower rate.

    Returns the model. Call it once, before DDP or FSDP wraps the model. In a run that does not share its GPUs it does
    nothing.
    """
    training = process.training()
    if training is not None and training.is_joined:
        from weft.train.hooks import layers

        layers.hook(model, training)
    return model
