"""The router's rules for any order of events: every request is somewhere, once, and no limit is passed."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from weft.router.rules.dispatch import Dispatcher, ReplicaLoad, ReplicaPlan
from weft.router.rules.model_name import BadBody, FormScanner, ModelScanner
from weft.router.rules.picking import BALANCE_RULES, BalanceRule, pick
from weft.router.rules.retry import IDEMPOTENT, MAX_SENDS, RETRY_RULES, RetryRule, may_send_again
from weft.router.rules.target import find_target, split_target

PLANS = st.lists(
    st.builds(
        ReplicaPlan,
        st.sampled_from("abcde"),
        st.integers(1, 4),
        st.sampled_from((0.5, 1.0, 3.0)),
        st.booleans(),
    ),
    max_size=5,
    unique_by=lambda plan: plan.name,
)


class Dispatching(RuleBasedStateMachine):
    """Requests arrive, end, fail and leave; replicas come, drain, fail and go."""

    @initialize(seed=st.integers(0, 1000), max_queue=st.integers(0, 6), balance=st.sampled_from(BALANCE_RULES))
    def begin(self, seed: int, max_queue: int, balance: BalanceRule) -> None:
        self.dispatcher: Dispatcher[int] = Dispatcher(random.Random(seed).random, max_queue)
        self.dispatcher.balance = balance
        self.at: dict[int, ReplicaLoad] = {}
        self.waiting: list[int] = []
        self.failed: dict[int, ReplicaLoad] = {}
        self.number = 0
        self.now_s = 0.0

    def settle(self) -> None:
        for request, replica in self.dispatcher.assignments():
            overtaken = self.waiting[: self.waiting.index(request)]
            self.waiting.remove(request)
            assert all(self.failed.get(each) is replica for each in overtaken), "first come, first served"
            assert self.failed.get(request) is not replica or not self.others_in(replica), "another replica takes it"
            self.enter(request, replica)

    def others_in(self, replica: ReplicaLoad) -> bool:
        return any(each.is_in() for each in self.dispatcher.replicas.values() if each is not replica)

    def enter(self, request: int, replica: ReplicaLoad) -> None:
        assert request not in self.at
        assert not replica.draining
        assert not replica.removed
        assert not replica.health.is_out()
        assert replica.outstanding <= replica.concurrency
        self.at[request] = replica

    @rule()
    def arrive(self) -> None:
        self.number += 1
        if self.dispatcher.is_full():
            assert len(self.waiting) >= self.dispatcher.max_queue
            return
        replica = self.dispatcher.arrive(self.number)
        if replica is None:
            self.waiting.append(self.number)
            self.settle()
        else:
            assert not self.waiting, "no request overtakes another"
            self.enter(self.number, replica)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.at:
            self.dispatcher.release(self.at.pop(data.draw(st.sampled_from(sorted(self.at)))))
            self.settle()

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        if self.at:
            request = data.draw(st.sampled_from(sorted(self.at)))
            replica = self.failed[request] = self.at.pop(request)
            replica.health.note_failure()
            self.dispatcher.suspect(replica)
            self.dispatcher.judge(replica, self.now_s)
            self.dispatcher.release(replica)
            self.dispatcher.return_to_front(request, replica)
            self.waiting.insert(0, request)
            self.settle()

    @rule(data=st.data(), errors=st.integers(1, 6))
    def answer_with_errors(self, data: st.DataObject, errors: int) -> None:
        if self.dispatcher.replicas:
            replica = self.dispatcher.replicas[data.draw(st.sampled_from(sorted(self.dispatcher.replicas)))]
            for _ in range(errors):
                replica.health.note_answer(500)
                self.dispatcher.judge(replica, self.now_s)
            self.settle()

    @rule(data=st.data())
    def answer_a_probe(self, data: st.DataObject) -> None:
        if suspects := [each for each in self.dispatcher.replicas.values() if each.health.suspect]:
            self.dispatcher.clear(data.draw(st.sampled_from(suspects)))
            self.settle()

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.waiting:
            request = data.draw(st.sampled_from(self.waiting))
            self.waiting.remove(request)
            self.dispatcher.leave(request)

    @rule(plans=PLANS)
    def update(self, plans: list[ReplicaPlan]) -> None:
        gone = self.dispatcher.update(plans)
        assert all(replica.removed for replica in gone)
        assert set(self.dispatcher.replicas) == {plan.name for plan in plans}
        self.settle()

    @rule(seconds=st.floats(0.1, 20.0))
    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        self.dispatcher.end_ejections(self.now_s)
        self.settle()

    @invariant()
    def books_balance(self) -> None:
        counts = Counter(id(replica) for replica in self.at.values())
        dispatcher = self.dispatcher
        assert dispatcher.in_flight == len(self.at)
        assert list(dispatcher.queue) == self.waiting
        for replica in {*dispatcher.replicas.values(), *self.at.values()}:
            assert replica.outstanding == counts[id(replica)]
        could = [each for each in dispatcher.replicas.values() if each.outstanding < each.concurrency and each.is_in()]
        for request in self.waiting if could else ():
            assert could == [self.failed.get(request)], "no request waits while a replica would take it"
            assert self.others_in(could[0])
        takers = [each for each in dispatcher.replicas.values() if not each.draining and not each.health.suspect]
        assert not takers or dispatcher.has_ready(), "bad answers are better than none"


Dispatching.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_any_order_of_events_keeps_the_books = Dispatching.TestCase


class Weighted:
    name, turn = "", 0.0

    def __init__(self, outstanding: int, weight: float) -> None:
        self.outstanding, self.weight = outstanding, weight


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from((1.0, 2.0, 5.0))), min_size=1, max_size=6), st.integers())
def test_the_busiest_of_several_replicas_is_never_picked(given_loads: list[tuple[int, float]], seed: int) -> None:
    loads = [Weighted(*each) for each in given_loads]
    draw = random.Random(seed).random
    picked = pick(loads, draw, weighted=True)
    rates = sorted(each.outstanding / each.weight for each in loads)
    assert len(loads) == 1 or picked.outstanding / picked.weight <= rates[-2] or rates[-1] == rates[-2]


def test_idle_replicas_get_requests_in_proportion_to_their_weights() -> None:
    draw, loads = random.Random(1).random, [Weighted(0, 1.0), Weighted(0, 3.0)]
    heavy = sum(pick(loads, draw, weighted=True) is loads[1] for _ in range(4000))
    assert 2880 < heavy < 3120


def in_turn(dispatcher: Dispatcher[int], requests: int) -> str:
    """Return the replicas that get requests which are answered at once."""
    found = [dispatcher.arrive(number) for number in range(requests)]
    for replica in found:
        assert replica is not None
        dispatcher.release(replica)
    return "".join(replica.name for replica in found if replica is not None)


def test_round_robin_takes_replicas_in_turn_by_weight_and_lets_none_catch_up() -> None:
    dispatcher: Dispatcher[int] = Dispatcher(random.random, 0)
    dispatcher.balance = "round_robin"
    dispatcher.update([ReplicaPlan(name, 100) for name in "abc"])
    assert in_turn(dispatcher, 7) == "abcabca"
    dispatcher.update([ReplicaPlan("a", 100), ReplicaPlan("b", 100), ReplicaPlan("c", 100, draining=True)])
    assert in_turn(dispatcher, 5) == "babab"
    dispatcher.update([ReplicaPlan(name, 100) for name in "abcd"])
    assert sorted(in_turn(dispatcher, 8)) == sorted("abcd" * 2), "those that were away get no more than the others"
    dispatcher.update([ReplicaPlan("a", 100, 2.0), ReplicaPlan("b", 100)])
    assert Counter(in_turn(dispatcher, 30)) == {"a": 20, "b": 10}


@given(
    st.sampled_from(RETRY_RULES), st.sampled_from((*sorted(IDEMPOTENT), b"POST", b"PATCH")), st.integers(0, 5),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_only_unanswered_requests_are_sent_again(
    retry: RetryRule, method: bytes, sends: int, answered: bool, has_body: bool
) -> None:
    again = may_send_again(retry, method, sends=sends, answered=answered, has_body=has_body)
    if answered or not has_body or retry == "never" or sends >= MAX_SENDS:
        assert not again
    elif sends and method not in IDEMPOTENT:
        assert again == (retry == "unanswered")
    else:
        assert again == (sends == 0 or retry != "connect")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(("model", "messages", "x", 'mo"del', "stream")), VALUES, max_size=5)


def scan(body: bytes, cuts: list[int]) -> str | None:
    scanner, at = ModelScanner(), 0
    for cut in [*sorted(cut % (len(body) + 1) for cut in cuts), len(body)]:
        if (model := scanner.feed(body[at:cut])) is not None:
            return model
        at = max(at, cut)
    return None


@settings(max_examples=300)
@given(BODIES, st.lists(st.integers(0, 500), max_size=6), st.sampled_from((None, 2)), st.booleans())
def test_the_model_is_found_in_any_json_cut_anywhere(
    body: dict[str, Any], cuts: list[int], indent: int | None, plain: bool
) -> None:
    text = json.dumps(body, indent=indent, ensure_ascii=plain).encode()
    if isinstance(body.get("model"), str) and len(body["model"].encode()) < 80:
        assert scan(text, cuts) == body["model"]
    else:
        with pytest.raises(BadBody):
            scan(text, cuts)


@settings(max_examples=300)
@given(
    st.binary(max_size=60) | st.text('{}[]",:\\model1 ', max_size=40).map(str.encode),
    st.lists(st.integers(0, 60), max_size=3),
)
def test_the_search_for_a_model_ends_with_any_bytes(body: bytes, cuts: list[int]) -> None:
    try:
        found = scan(body, cuts)
    except BadBody:
        return
    assert found is None or isinstance(found, str)


FIELDS = st.sampled_from((b'name="model"', b"name=model", b'name="file"; filename="model"', b'name="prompt"'))
PARTS = st.lists(st.tuples(FIELDS, st.binary(max_size=30).filter(lambda value: b"\r\n" not in value)), max_size=4)


@settings(max_examples=300)
@given(PARTS, st.lists(st.integers(0, 500), max_size=6))
def test_the_model_is_found_in_any_form_cut_anywhere(parts: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    form = b"".join(
        b"--b1\r\nContent-Disposition: form-data; %b\r\nContent-Type: text/plain\r\n\r\n%b\r\n" % part for part in parts
    )
    form += b"--b1--\r\n"
    scanner, found = FormScanner(b"b1"), None
    ends = [*sorted(cut % len(form) for cut in cuts), len(form)]
    for start, end in zip([0, *ends], ends, strict=False):
        found = scanner.feed(form[start:end]) if found is None else found
    models = [value.decode("utf-8", "replace") for field, value in parts if field in (b'name="model"', b"name=model")]
    assert found == (models[0] if models else None)


@pytest.mark.parametrize("form", [b"--b1\r\n" * 10_000, b"--b1\r\nx\r\n\r\n" * 200])
def test_a_form_of_endless_headers_or_parts_is_refused(form: bytes) -> None:
    with pytest.raises(BadBody):
        FormScanner(b"b1").feed(form)


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_a_target_is_a_path_of_the_request(target: bytes, host: bytes) -> None:
    where = split_target(target, host)
    if where is None:
        return
    host, path = where
    assert path.startswith(b"/")
    found = find_target(path, host, {b"chat": "chat"}, {b"chat.example": "chat"})
    if found.kind == "service":
        assert found.target.startswith(b"/")
        assert path in (found.prefix + found.target, found.prefix + found.target[1:])
