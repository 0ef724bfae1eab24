"""The inference servers of weft_workloads: answers as of the model itself, batches under load, streams, a clean end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.peers.model_server import ANSWER_S, model_server, read_to_end, slow_model
from support.running.local_scheduler import until

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make workloads")
needs_llm = pytest.mark.skipif(
    find_spec("xllamacpp") is None and os.environ.get("CI") != "true", reason="xllamacpp is not installed: weft[llm]"
)
TINY = ("--size", "tiny", "--threads", "1", "--seed", "3")
REQUESTS: dict[str, list[dict[str, Any]]] = {
    "resnet152": [{"seed": 1}, {"seed": 2}],
    "vgg19": [{"seed": 1}, {"seed": 5}],
    "bert": [{"text": "a [MASK] in the sun"}, {"text": "short [MASK]"}],
    "roberta-large": [{"text": "a [MASK] in the sun"}],
    "gpt2": [{"text": "once upon", "max_tokens": 4}, {"text": "once upon a time", "max_tokens": 2}],
    "gpt2-large": [{"text": "once upon", "max_tokens": 3}],
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return {**kept, "OMP_NUM_THREADS": "1", "WEFT_DATA_DIR": str(tmp_path)}


@needs_torch
@pytest.mark.parametrize("name", REQUESTS)
def test_served_models_answer_alike_alone_and_in_a_batch(name: str) -> None:
    import torch

    from weft_workloads.catalogue import find_model
    from weft_workloads.serving.served_models import ImageModel, load

    model: Any = load(find_model(name), True, 3)
    samples = [model.read(request) for request in REQUESTS[name] * 2]
    with torch.inference_mode():
        together = model.run(samples)
        alone = [model.run([sample])[0] for sample in samples]
        direct = model.module(samples[0][None]).softmax(1) if isinstance(model, ImageModel) else None
    for one, other in zip(together, alone, strict=True):
        if direct is None:
            assert one == other
        else:
            assert one["classes"] == other["classes"]
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)
    if direct is not None:
        assert together[0]["scores"] == pytest.approx(direct[0].topk(5).values.tolist(), abs=1e-5)


@needs_torch
def test_a_server_batches_under_load_refuses_bad_requests_and_drains(env: dict[str, str], tmp_path: Path) -> None:
    import torch

    from weft_workloads.catalogue import find_model
    from weft_workloads.serving.served_models import load

    model: Any = load(find_model("gpt2"), True, 3)
    request = {"text": "once upon", "max_tokens": 24}
    with torch.inference_mode():
        expected = model.run([model.read(request)])[0]
    with model_server("gpt2", *TINY, env=env, log=tmp_path / "log") as server, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: server.call("POST", "/generate", request), range(48)))
        assert answers == [(200, expected)] * 48
        stats = server.call("GET", "/stats")[1]
        assert stats["requests"] == 48
        assert stats["batches"] < 48, "no two requests were in one batch"
        wrong: list[Any] = [{"text": 7}, {"text": "x", "max_tokens": 0}, [], "{"]
        for bad in wrong:
            status, body = server.call("POST", "/generate", bad)
            assert (status, body["error"]["code"]) == (400, "bad-request")
        slow = [pool.submit(server.call, "POST", "/", {"text": "x", "max_tokens": 200}) for _ in range(4)]
        until(lambda: server.call("GET", "/stats")[1]["requests"] == 52, ANSWER_S)
        server.process.send_signal(signal.SIGTERM)
        assert [each.result(ANSWER_S)[0] for each in slow] == [200] * 4
        assert server.process.wait(ANSWER_S) == 0


def test_a_server_that_ends_answers_each_request_that_was_sent(env: dict[str, str], tmp_path: Path) -> None:
    request = b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n{"a": 1}'
    with slow_model(env, tmp_path / "log") as server, contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S))

        idle, used, late = connect(), connect(), connect()
        used.sendall(request)
        assert b'{"a": 1}' in used.recv(4096)
        sent = [connect() for _ in range(200)]  # more than it accepts before the signal
        for each in sent:
            each.sendall(request)
        server.process.send_signal(signal.SIGTERM)
        late.sendall(request)
        answers = [read_to_end(each) for each in (*sent, late)]
        assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}
        assert {answer[-8:] for answer in answers} == {b'{"a": 1}'}
        assert (read_to_end(idle), read_to_end(used)) == (b"", b"")
        assert server.process.wait(ANSWER_S) == 0


@needs_llm
def test_the_language_model_streams_and_finishes_its_streams_on_sigterm(env: dict[str, str], tmp_path: Path) -> None:
    body = {"model": "tiny-llm", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 300, "stream": True}
    with model_server("tiny-llm", "--batch", "2", env=env, log=tmp_path / "log") as server:
        assert server.call("GET", "/v1/models")[1]["data"][0]["id"] == "tiny-llm"
        whole = server.call("POST", "/v1/completions", {"prompt": "a", "max_tokens": 5, "temperature": 0})
        assert whole == (200, whole[1])
        assert whole[1]["usage"]["completion_tokens"] == 5
        lines: list[bytes] = []
        begun = threading.Event()

        def stream() -> None:
            connection = HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S)
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            for line in connection.getresponse():
                lines.append(line)
                begun.set()
            connection.close()

        reader = threading.Thread(target=stream)
        reader.start()
        assert begun.wait(ANSWER_S)
        server.process.send_signal(signal.SIGTERM)
        reader.join(ANSWER_S)
        assert lines[-2:] == [b"data: [DONE]\n", b"\n"]
        assert len(lines) > 20
        assert server.process.wait(ANSWER_S) == 0


def test_models_without_a_server_and_bad_sizes_are_errors() -> None:
    from weft.errors import InputError
    from weft_workloads.commands import serve

    words = serve({"model": "bert", "size": "tiny"}).words
    assert list(words)[-5:] == ["serve", "--model", "bert", "--size", "tiny"]
    for params in ({"model": "dqn"}, {"model": "nothing"}, {"model": "bert", "sise": "tiny"}):
        with pytest.raises(InputError):
            serve(params)
