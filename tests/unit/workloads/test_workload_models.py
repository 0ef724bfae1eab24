"""Models: the published parameter counts at full size, and shapes, without memory for them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from weft_workloads.catalogue import MODELS
from weft_workloads.models import cv, llama, rl, text


def count(*modules: torch.nn.Module) -> int:
    return sum(each.numel() for module in modules for each in module.parameters())


def build(name: str) -> torch.nn.Module:
    kind = MODELS[name].kind
    if kind == "images":
        return cv.build(name, tiny=False, classes=1000)
    if kind == "games":
        return rl.build(name, (4, 84, 84), 6, tiny=False)
    return llama.build(tiny=False) if name == "llama2-7b" else text.build(name, tiny=False)


@pytest.mark.parametrize("name", MODELS)
def test_full_models_have_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        assert count(build(name)) == MODELS[name].parameters


def test_bert_without_its_heads_has_the_published_number() -> None:
    with torch.device("meta"):
        model = build("bert-base")
    assert count(model.encoder, model.pooler) == 109_482_240


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_a_pipeline_of_any_length_is_the_whole_llama(parts: int) -> None:
    with torch.device("meta"):
        stages = [llama.build(tiny=False, part=part, parts=parts) for part in range(parts)]
        assert count(*stages) == MODELS["llama2-7b"].parameters
        names = [name for stage in stages for name in stage.state_dict()]
        assert sorted(names) == sorted(llama.build(tiny=False).state_dict())
        hidden = torch.zeros(1, 128, dtype=torch.int64)
        for stage in stages:
            hidden = stage(hidden)
        assert tuple(hidden.shape) == (1, 128, 32000)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.kind == "images"])
def test_image_models_take_images_of_224_pixels(name: str) -> None:
    with torch.device("meta"):
        assert tuple(build(name)(torch.zeros(2, 3, 224, 224)).shape) == (2, 1000)
