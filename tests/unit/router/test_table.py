"""Tables of services: what a file may say, and what it is refused for."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.router.table import parse_table

FULL = """
services:
  chat:
    concurrency: 8
    models: [tiny, tiny-2]
    hosts: [Chat.example]
    timeouts: {queue: 2m, answer: 250ms, idle: 5}
    retry: unanswered
    balance: round_robin
    max_queue: 10
    health: /ready?all
    replicas:
      - 127.0.0.1:9001
      - {name: b, address: "[::1]:9002", concurrency: 2, weight: 0.5, draining: true, version: 3}
  empty: {}
"""


def test_a_table_says_everything_about_its_services() -> None:
    chat, empty = parse_table(FULL, "t.yaml").services
    assert (chat.models, chat.hosts) == (("tiny", "tiny-2"), ("chat.example",))
    assert (chat.retry, chat.max_queue, chat.balance) == ("unanswered", 10, "round_robin")
    assert (chat.timeouts.queue_s, chat.timeouts.answer_s, chat.timeouts.idle_s) == (120.0, 0.25, 5.0)
    first, second = chat.replicas
    assert (first.name, str(first.address), first.concurrency, first.weight) == ("127.0.0.1:9001",) * 2 + (8, 1.0)
    assert (second.name, str(second.address), second.concurrency) == ("b", "[::1]:9002", 2)
    assert (second.weight, second.draining, second.version) == (0.5, True, 3)
    assert (chat.health, empty.health) == ("/ready?all", "/")
    assert empty.replicas == ()


def test_json_is_a_table_too() -> None:
    assert parse_table('{"services": {"a": {"replicas": ["h:1"]}}}', "t.json").services[0].replicas[0].address.port == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: {v1: {}}", "cannot be the name"),
        ("services: {a/b: {}}", "cannot be the name"),
        ("services: {a: {replicas: [localhost]}}", "has no port"),
        ("services: {a: {replicas: ['h:1', 'h:1']}}", "two replicas"),
        ("services: {a: {models: [m]}, b: {models: [m]}}", "two services have the model"),
        ("services: {a: {hosts: [H]}, b: {hosts: [h]}}", "two services have the host"),
        ("services: {a: {retry: always}}", "retry rule"),
        ("services: {a: {balance: random}}", "balance rule"),
        ("services: {a: {timeouts: {queue: soon}}}", "timeouts.queue"),
        ("services: {a: {timeouts: {queue: 0}}}", "timeouts.queue"),
        ("services: {a: {replicas: [{address: 'h:1', weight: -1}]}}", "weight"),
        ("services: {a: {replicas: [{address: 'h:1', draining: maybe}]}}", "draining"),
        ("services: {a: {concurrency: 0}}", "concurrency"),
        ("services: {a: {health: 'a b'}}", "a path such as /health"),
        ('services: {a: {health: "/a\\r\\nb"}}', "health"),
        ("services: {a: {replica: []}}", "replica"),
        ("other: 1", "other"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        parse_table(text, "t.yaml")
    assert raised.value.where.startswith("t.yaml")
