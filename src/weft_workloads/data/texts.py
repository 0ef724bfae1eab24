"""Texts as WikiText has them, as bytes: windows for decoders, masked windows and pairs for encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from weft.errors import InputError
from weft_workloads.data.order import Key

CLS: Final = 1
SEP: Final = 2
MASK: Final = 3
FIRST_BYTE: Final = 4
"""Token of byte 0: the tokeniser maps each byte to one token, after padding and three special tokens."""
TOKENS: Final = FIRST_BYTE + 256
IGNORED: Final = -100
"""Label of tokens that do not count."""
TRAIN_NAMES: Final = ("wiki.train.tokens", "wiki.train.raw", "train.txt")
VALID_NAMES: Final = ("valid", "validation", "val", "test")
LAYOUT: Final = "give a folder with wiki.train.tokens and wiki.valid.tokens (or .raw), or the path of such a train file"


def encode(text: bytes) -> np.ndarray:
    """Return the tokens of a text."""
    return np.frombuffer(text, dtype=np.uint8).astype(np.int64) + FIRST_BYTE


def decode(tokens: np.ndarray) -> bytes:
    """Return the text of tokens, without the special ones."""
    return (tokens[tokens >= FIRST_BYTE] - FIRST_BYTE).astype(np.uint8).tobytes()


def find_files(path: Path) -> tuple[Path, Path]:
    """Return the file to train on and the file to evaluate on."""
    if path.is_dir():
        found = [path / name for name in TRAIN_NAMES if (path / name).is_file()]
        if not found:
            raise InputError(f"{path} has no file {', '.join(TRAIN_NAMES[:-1])} or {TRAIN_NAMES[-1]}", hint=LAYOUT)
        path = found[0]
    for name in VALID_NAMES:
        other = path.with_name(path.name.replace("train", name))
        if other != path and other.is_file():
            return path, other
    expected = path.name.replace("train", "valid") if "train" in path.name else "wiki.valid.tokens"
    raise InputError(f"{path} has no file of unseen text next to it, such as {expected}", hint=LAYOUT)


class Windows(Dataset[tuple[Tensor, ...]]):
    """Windows of equal length. The epoch shifts them, so that their borders change."""

    def __init__(self, path: Path, length: int, seed: int) -> None:
        self.bytes = np.memmap(path, dtype=np.uint8, mode="r") if path.stat().st_size else np.empty(0, dtype=np.uint8)
        self.length, self.seed = length, seed
        if len(self) < 1:
            raise InputError(
                f"{path} has {len(self.bytes):,} bytes, too few for a window of {length}",
                hint="use more text, or a smaller sequence_length",
            )

    def __len__(self) -> int:
        return max((len(self.bytes) - self.length) // self.length, 0)

    def window(self, epoch: int, index: int) -> np.ndarray:
        shift = int(np.random.default_rng([self.seed, epoch]).integers(self.length)) if epoch else 0
        begin = index * self.length + shift
        return encode(self.bytes[begin : begin + self.length].tobytes())

    def __getitem__(self, key: Key) -> tuple[Tensor, ...]:
        return (torch.from_numpy(self.window(*key)),)


class MaskedWindows(Windows):
    """Windows with masked tokens, and the tokens that were there."""

    def __getitem__(self, key: Key) -> tuple[Tensor, ...]:
        tokens = self.window(*key)
        labels = mask_tokens(tokens, np.random.default_rng([self.seed, *key]))
        return torch.from_numpy(tokens), torch.from_numpy(labels)


class MaskedPairs(Windows):
    """Two segments with masked tokens; in half of the samples the second one is from elsewhere in the text."""

    def __getitem__(self, key: Key) -> tuple[Tensor, ...]:
        chance = np.random.default_rng([self.seed, *key])
        room = self.length - 3
        first, second = room - room // 2, room // 2
        tokens = self.window(*key)
        follows = bool(chance.random() < 0.5)
        other = tokens if follows else self.window(key[0], int(chance.integers(len(self))))
        pair = np.concatenate(([CLS], tokens[:first], [SEP], other[first : first + second], [SEP]))
        segments = np.repeat([0, 1], [first + 2, second + 1])
        labels = mask_tokens(pair, chance)
        return torch.from_numpy(pair), torch.from_numpy(segments), torch.from_numpy(labels), torch.tensor(int(follows))


def mask_tokens(tokens: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Change 15 % of the tokens in place: 8 of 10 to the mask, 1 to a random byte. Return what is to be predicted."""
    draw, how = chance.random(len(tokens)), chance.random(len(tokens))
    chosen = (draw < 0.15) & (tokens >= FIRST_BYTE)
    if not chosen.any():
        chosen[len(tokens) // 3] = True
    labels = np.where(chosen, tokens, IGNORED)
    tokens[chosen & (how < 0.8)] = MASK
    swapped = chosen & (how >= 0.9)
    tokens[swapped] = chance.integers(FIRST_BYTE, TOKENS, int(swapped.sum()))
    return labels
