"""Images in the layout of ImageNet: `train/CLASS/*.JPEG` and `val/CLASS/*.JPEG`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import Dataset

from weft.errors import InputError
from weft_workloads.data.order import Key

SUFFIXES: Final = frozenset({".jpeg", ".jpg", ".png"})
MEAN: Final = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD: Final = np.array([0.229, 0.224, 0.225], dtype=np.float32)
LAYOUT: Final = "the layout is train/CLASS/*.JPEG and val/CLASS/*.JPEG"


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """One part of the data: `train` with random crops and flips, or `val` with the centre of each image."""

    def __init__(self, root: Path, part: str, pixels: int, seed: int) -> None:
        self.part, self.pixels, self.seed = part, pixels, seed
        folder = root / part
        if not folder.is_dir():
            raise InputError(f"{root} has no folder {part}", hint=LAYOUT)
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        if not self.classes:
            raise InputError(f"{folder} has no folders of classes", hint=f"{LAYOUT}; sort its images into folders")
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted((folder / name).iterdir())
            if path.suffix.lower() in SUFFIXES
        ]
        if not self.samples:
            raise InputError(f"{folder} has no images (.JPEG, .jpg, .png)", hint=LAYOUT)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, key: Key) -> tuple[Tensor, int]:
        epoch, index = key
        path, label = self.samples[index]
        try:
            with Image.open(path) as file:
                image = file.convert("RGB")
        except (OSError, UnidentifiedImageError) as error:
            raise InputError(f"{path} is not a readable image: {error}", hint="remove or replace it") from error
        if self.part == "train":
            image = _random_crop(image, self.pixels, np.random.default_rng([self.seed, epoch, index]))
        else:
            image = _centre_crop(image, self.pixels)
        values = (np.asarray(image, dtype=np.float32) / 255 - MEAN) / STD
        return torch.from_numpy(values.transpose(2, 0, 1).copy()), label


def check_same_classes(train: ImageFolder, val: ImageFolder) -> None:
    """Reject parts whose labels mean different things."""
    missing = sorted(set(val.classes) - set(train.classes))
    if missing:
        raise InputError(f"val has the class {missing[0]}, which train lacks", hint=LAYOUT)
    labels = {name: label for label, name in enumerate(train.classes)}
    val.samples = [(path, labels[val.classes[label]]) for path, label in val.samples]
    val.classes = train.classes


def _random_crop(image: Image.Image, pixels: int, chance: np.random.Generator) -> Image.Image:
    """Return a part of 8 to 100 % of the area with a ratio of 3:4 to 4:3, resized, and mirrored half of the time."""
    width, height = image.size
    for _ in range(10):
        area = width * height * chance.uniform(0.08, 1.0)
        ratio = math.exp(chance.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            break
    else:
        wide = high = min(width, height)
    left, top = int(chance.integers(0, width - wide + 1)), int(chance.integers(0, height - high + 1))
    image = image.resize((pixels, pixels), Image.Resampling.BILINEAR, (left, top, left + wide, top + high))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if chance.random() < 0.5 else image


def _centre_crop(image: Image.Image, pixels: int) -> Image.Image:
    """Return the centre: 224 of 256 pixels of the shorter side."""
    width, height = image.size
    side = min(width, height) * 224 / 256
    left, top = (width - side) / 2, (height - side) / 2
    return image.resize((pixels, pixels), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
