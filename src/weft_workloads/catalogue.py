"""The models that can be trained, by name, with their defaults. Imports nothing heavy: `weft submit` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from weft.errors import UnknownName

Kind = Literal["images", "text", "games"]
Size = Literal["tiny", "full"]
SIZES: Final = ("tiny", "full")


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the settings that it is trained with unless the job gives others."""

    name: str
    kind: Kind
    parameters: int
    """Parameters at full size, as published."""
    optimizer: str = "sgd"
    learning_rate: float = 0.05
    tiny_learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int = 32
    tiny_batch_size: int = 16
    is_pipeline: bool = False
    """Several ranks split the layers, not the batch, by default."""


def _text(name: str, parameters: int, learning_rate: float, batch_size: int, is_pipeline: bool = False) -> Model:
    return Model(name, "text", parameters, "adamw", learning_rate, 2e-3, 0.0, 0.01, batch_size, is_pipeline=is_pipeline)


MODELS: Final[dict[str, Model]] = {
    model.name: model
    for model in (
        Model("resnet18", "images", 11_689_512),
        Model("resnet50", "images", 25_557_032),
        # deeper: at the step size of the others its loss rises before it falls
        Model("resnet152", "images", 60_192_808, tiny_learning_rate=0.005),
        Model("vgg16", "images", 138_357_544, learning_rate=0.01, tiny_learning_rate=0.02),
        Model("vgg19", "images", 143_667_240, learning_rate=0.01, tiny_learning_rate=0.02),
        Model("shufflenet_v2_x1_0", "images", 2_278_604),
        _text("bert-base", 110_106_428, 1e-4, 16),
        _text("roberta-large", 355_412_057, 1e-4, 8),
        _text("gpt2", 124_439_808, 2.5e-4, 8),
        _text("gpt2-large", 774_030_080, 2.5e-4, 4),
        _text("llama2-7b", 6_738_415_616, 3e-4, 8, is_pipeline=True),
        Model("a2c", "games", 1_687_719, "adam", 2.5e-4, 3e-3, 0.0, 0.0, 80, 40),
        Model("dqn", "games", 1_687_206, "adam", 1e-4, 2e-3, 0.0, 0.0, 32, 32),
    )
}
ALIASES: Final = {"bert": "bert-base", "roberta": "roberta-large", "shufflenet": "shufflenet_v2_x1_0",
                  "llama2": "llama2-7b"}  # fmt: skip
"""Short names, some of which the traces use."""


def find_model(name: str) -> Model:
    """Return a model by its name or short name. If there is none, list the known names, nearest first."""
    found = MODELS.get(ALIASES.get(name, name))
    if found is None:
        raise UnknownName("model", name[:80], MODELS)
    return found
