"""The actuators inside a process, against a stand-in for `torch.cuda`: there is no GPU here."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from weft.train.device_page import cuda as actuators
from weft.train.device_page.cuda import GreenContexts, LayerQueue, NoActuator, StreamPriority, find_actuator, sizes

SMS = 100
LEAST_SMS = 8


class Stream:
    def __init__(self, name: str, priority: int = 0) -> None:
        self.name, self.priority = name, priority
        self.waits: list[str] = []

    def wait_stream(self, other: Stream) -> None:
        self.waits.append(other.name)


class Cuda:
    """The functions of `torch.cuda` that Weft calls; records the current stream and the events."""

    def __init__(self) -> None:
        self.current, self.made, self.log = Stream("default"), list[int](), list[str]()
        self.green_contexts = SimpleNamespace(GreenContext=SimpleNamespace(create=self._create))

    def _create(self, *, num_sms: int) -> Any:
        if num_sms < LEAST_SMS:
            raise RuntimeError("too few SMs")
        self.made.append(num_sms)
        stream = Stream(f"green {num_sms}")
        return SimpleNamespace(Stream=lambda: stream)

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, _device: int) -> Any:
        return SimpleNamespace(multi_processor_count=SMS)

    def current_stream(self) -> Stream:
        return self.current

    def set_stream(self, stream: Stream) -> None:
        self.current = stream

    def Stream(self, priority: int = 0) -> Stream:  # noqa: N802
        return Stream("priority", priority)

    def Event(self, blocking: bool) -> Any:  # noqa: N802
        assert blocking
        number = len([each for each in self.log if each.startswith("record")])
        return SimpleNamespace(
            record=lambda: self.log.append(f"record {number}"), synchronize=lambda: self.log.append(f"wait {number}")
        )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=made))
    return made


def test_sizes_go_from_the_request_to_the_limit() -> None:
    assert sizes(0.3, 0.6) == [0.3, 0.4, 0.5, 0.6]
    assert sizes(0.25, 0.5) == [0.25, 0.35, 0.45, 0.5]
    assert sizes(0.5, 0.5) == [0.5]


def test_green_contexts_are_made_once_and_a_switch_orders_the_streams(cuda: Cuda) -> None:
    found = find_actuator({actuators.VARIABLE: "green"}, 0.3, 0.6, is_inference=True)
    assert isinstance(found, GreenContexts)
    assert cuda.made == [30, 40, 50, 60]
    for share, name in ((0.6, "green 60"), (0.3, "green 30"), (0.3, "green 30"), (0.45, "green 50"), (0.9, "green 60")):
        before = cuda.current
        found.switch(share)
        assert cuda.current.name == name
        assert cuda.current is before or cuda.current.waits[-1] == before.name
    assert len(cuda.made) == 4


def test_a_context_that_is_too_small_is_left_out(cuda: Cuda, capsys: pytest.CaptureFixture[str]) -> None:
    GreenContexts(cuda, 0.05, 0.2).switch(0.05)
    assert cuda.current.name == "green 15"
    found = find_actuator({actuators.VARIABLE: "green"}, 0.01, 0.01, is_inference=True)
    assert isinstance(found, NoActuator)
    assert "WEFT_GPU_ACTUATOR=green is not possible here" in capsys.readouterr().err


def test_inference_gets_a_stream_of_high_priority_and_training_none(cuda: Cuda) -> None:
    found = find_actuator({actuators.VARIABLE: "priority"}, 0.3, 0.6, is_inference=True)
    assert isinstance(found, StreamPriority)
    found.switch(0.3)
    assert cuda.current.priority < 0
    assert isinstance(find_actuator({actuators.VARIABLE: "priority"}, 0.3, 0.6, is_inference=False), NoActuator)


def test_nothing_changes_unless_the_environment_asks_for_it(cuda: Cuda) -> None:
    find_actuator({}, 0.3, 0.6, is_inference=True).switch(0.3)
    assert cuda.current.name == "default"


def test_at_most_two_layers_are_queued(cuda: Cuda) -> None:
    queue = LayerQueue(cuda)
    for _ in range(4):
        queue.limit()
    assert cuda.log == ["record 0", "record 1", "record 2", "wait 0", "record 3", "wait 1"]
