"""The messages of the wire, made from the compiled schema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from weft.access.wire import messages as m
from weft.access.wire.service import SERVICES

SOURCE = Path(m.SCHEMA).parents[3]
STUB = "weft/access/wire/weft_pb2.pyi"
WITHOUT_C = """
import sys
sys.modules["google._upb"] = None
from weft.access.wire import messages as m
request = m.SubmitRequest(jobs=[m.JobSpec(name="a", gpus=2)])
assert m.SubmitRequest.FromString(request.SerializeToString()) == request
print(type(request.jobs[0]) is m.JobSpec, m.RunNews.STARTED)
"""


def test_the_compiled_schema_is_that_of_the_source(tmp_path: Path) -> None:
    compiled = tmp_path / "weft.binpb"
    outputs = [f"--descriptor_set_out={compiled}", f"--pyi_out={tmp_path}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, "weft/access/wire/weft.proto"]
    subprocess.run(command, cwd=SOURCE, check=True)
    assert compiled.read_bytes() == Path(m.SCHEMA).read_bytes(), "make proto"
    assert (tmp_path / STUB).read_text() == (SOURCE / STUB).read_text(), "make proto"


def test_every_message_has_a_class() -> None:
    assert sorted(m._schema().message_types_by_name) == sorted(m.__all__)
    for name in m.__all__:
        kind = getattr(m, name)
        assert (kind.__name__, kind.__module__) == (name, "weft.access.wire.messages")
        assert kind.FromString(kind().SerializeToString()) == kind()
    for methods in SERVICES.values():
        assert all(each.request and each.reply for each in methods.values())


def test_messages_hold_messages() -> None:
    request = m.SubmitRequest(jobs=[m.JobSpec(name="a", gpus=0)], key="k")
    request.jobs.add(name="b").env.add(name="X", value="1")
    again = m.SubmitRequest.FromString(request.SerializeToString())
    assert again == request
    assert isinstance(again.jobs[1], m.JobSpec)
    assert (again.jobs[0].HasField("gpus"), again.jobs[1].HasField("gpus")) == (True, False)
    news = m.AgentMessage(news=m.RunNews(job="1", phase=m.RunNews.STARTED))
    assert (news.WhichOneof("is"), news.news.phase) == ("news", 1)


def test_what_is_no_message_is_an_error() -> None:
    with pytest.raises(DecodeError):
        m.SubmitRequest.FromString(b"\xff\xff")
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = m.Nothing  # type: ignore[attr-defined]


def test_another_implementation_of_protobuf_does_too() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_C], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True 1\n", "")
