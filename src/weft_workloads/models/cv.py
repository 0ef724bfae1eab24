"""Image classifiers: ResNet, VGG and ShuffleNetV2."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = 4
RESNETS = {
    "resnet18": (False, (2, 2, 2, 2), (1, 1, 1, 1)),
    "resnet50": (True, (3, 4, 6, 3), (1, 1, 1, 1)),
    "resnet152": (True, (3, 8, 36, 3), (1, 2, 3, 1)),
}
"""Blocks with or without bottlenecks, and their number in each stage: full and tiny."""
VGGS = {"vgg16": ((2, 2, 3, 3, 3), (1, 1, 1, 1)), "vgg19": ((2, 2, 4, 4, 4), (1, 1, 2, 1))}
"""Convolutions before each pooling layer: full and tiny."""


def build(name: str, tiny: bool, classes: int) -> nn.Module:
    """Return an image classifier by name."""
    if name in RESNETS:
        bottleneck, full, small = RESNETS[name]
        return ResNet(bottleneck, small if tiny else full, 8 if tiny else 64, classes)
    if name in VGGS:
        convolutions, fewer = VGGS[name]
        return Vgg(fewer if tiny else convolutions, 16 if tiny else 64, 64 if tiny else 4096, classes)
    repeats, channels = ((1, 1, 1), (8, 16, 32, 64, 128)) if tiny else ((4, 8, 4), (24, 116, 232, 464, 1024))
    return ShuffleNet(repeats, channels, classes)


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    """A residual block of two 3x3 convolutions, or of a 3x3 convolution between two of 1x1."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            layers = [*_conv(inputs, width), nn.ReLU(inplace=True), *_conv(width, width, 3, stride),
                      nn.ReLU(inplace=True), *_conv(width, outputs)]  # fmt: skip
        else:
            layers = [*_conv(inputs, width, 3, stride), nn.ReLU(inplace=True), *_conv(width, outputs, 3)]
        self.layers = nn.Sequential(*layers)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*_conv(inputs, outputs, 1, stride)) if changes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.layers(images) + self.shortcut(images))


class ResNet(nn.Module):
    def __init__(self, bottleneck: bool, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        stem = [*_conv(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        inputs, layers = width, []
        for stage, count in enumerate(blocks):
            for at in range(count):
                layers.append(Block(inputs, width << stage, 2 if stage and not at else 1, bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
        self.features = nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))


class Vgg(nn.Module):
    def __init__(self, convolutions: tuple[int, ...], width: int, hidden: int, classes: int) -> None:
        super().__init__()
        inputs, layers = 3, []
        for stage, count in enumerate(convolutions):
            outputs = width << min(stage, STAGES - 1)
            for _ in range(count):
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = outputs
            layers.append(nn.MaxPool2d(2))
        # a small image is a single pixel by now; the pool would copy it to all places
        place, dropout = (7, 0.5) if hidden == 4096 else (1, 0.1)
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(place), nn.Flatten())
        self.classifier = nn.Sequential(
            nn.Linear(inputs * place * place, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(hidden, classes),
        )  # fmt: skip
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))


class ShuffleUnit(nn.Module):
    """A unit of ShuffleNetV2: half of the channels pass unchanged, or both halves are halved in resolution."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half, enters = outputs // 2, inputs if stride > 1 else outputs // 2
        self.side = nn.Sequential(
            *_conv(enters, enters, 3, stride, groups=enters), *_conv(enters, half), nn.ReLU(inplace=True)
        ) if stride > 1 else None  # fmt: skip
        self.main = nn.Sequential(*_conv(enters, half), nn.ReLU(inplace=True),
                                  *_conv(half, half, 3, stride, groups=half),
                                  *_conv(half, half), nn.ReLU(inplace=True))  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        if self.side is not None:
            kept, changed = self.side(images), self.main(images)
        else:
            kept, changed = images.chunk(2, dim=1)
            changed = self.main(changed)
        # interleave the channels of both halves
        return torch.stack((kept, changed), dim=2).flatten(1, 2)


class ShuffleNet(nn.Module):
    def __init__(self, repeats: tuple[int, ...], channels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        layers = [*_conv(3, channels[0], 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        for stage, count in enumerate(repeats):
            layers.append(ShuffleUnit(channels[stage], channels[stage + 1], 2))
            layers += [ShuffleUnit(channels[stage + 1], channels[stage + 1], 1) for _ in range(count - 1)]
        layers += [*_conv(channels[-2], channels[-1]), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(channels[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))
