"""One request: from its head to the end of its answer, over as many replicas as it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from weft.router.rules import refusals
from weft.router.rules.model_name import BadBody, FormScanner, ModelScanner, find_boundary
from weft.router.rules.refusals import Refusal
from weft.router.rules.request_head import RequestHead
from weft.router.rules.retry import may_send_again
from weft.router.rules.target import Target
from weft.router.settings import HOLD_BYTES, PATIENCE_S, REFUSAL_DELAY_S, REPLAY_BYTES

if TYPE_CHECKING:
    from weft.router.proxy.client import ClientConnection
    from weft.router.proxy.replica import ReplicaConnection
    from weft.router.rules.dispatch import ReplicaLoad
    from weft.router.service import RoutedService

NEW, PEEKING, READING, WAITING, CONNECTING, SENT, ANSWERING, TUNNEL, DONE = range(9)
"""The phases of an exchange, in their order. A retry goes back to WAITING."""
GONE: Final = 499
CUT: Final = 599
"""Codes in the metrics for clients that left, and for answers that were cut short."""
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """A request and its answer. `client` writes the answer, `connection` is the replica's side."""

    __slots__ = (
        "answered", "began_s", "body", "body_bytes", "client", "complete", "connection", "deadline_s", "head", "held",
        "holds_body", "phase", "refusal", "replica", "router", "scanner", "seen", "sends", "service", "status",
        "target",
    )  # fmt: skip

    def __init__(self, client: ClientConnection, head: RequestHead, refusal: Refusal | None = None) -> None:
        self.client, self.router, self.head, self.refusal = client, client.router, head, refusal
        self.body: list[bytes] = []
        """Pieces that a replica has yet to get, or may have to get again: see `holds_body`."""
        self.body_bytes = 0
        self.held = 0
        self.holds_body = True
        """True while `body` holds everything that was read of the body."""
        self.complete = False
        """True once all of the body has arrived."""
        self.phase = NEW
        self.began_s = time.monotonic()
        self.deadline_s = 0.0
        self.sends = 0
        self.answered = False
        self.status = 0
        self.target = Target("unknown")
        self.scanner: ModelScanner | FormScanner | None = None
        self.seen = 0
        """Pieces of the body in which the model was looked for."""
        self.service: RoutedService | None = None
        self.replica: ReplicaLoad | None = None
        self.connection: ReplicaConnection | None = None

    # ---- from the client

    def add_body(self, piece: bytes) -> None:
        """Take the next piece of the body: hold it, or pass it on."""
        self.body_bytes += len(piece)
        if self.phase in (PEEKING, READING, SENT):
            rate, latest_s = self.router.settings.min_body_rate, self.router.now() + self.client.body_timeout_s
            self.deadline_s = min(self.deadline_s + len(piece) / rate, latest_s)
        connection = self.connection
        if connection is None:
            self._hold(piece)
        else:
            if self.holds_body:
                self._hold(piece)
                if self.held > REPLAY_BYTES or self.answered:
                    self.drop_body()
            connection.send_body(piece)

    def grant_time(self) -> None:
        """Let the client go on with the body: it had to wait for the replica."""
        if self.phase == SENT and not self.complete:
            self.deadline_s = self.router.now() + self.client.body_timeout_s

    def end_body(self) -> None:
        """Take note that all of the body has arrived."""
        self.complete = True
        if self.connection is not None:
            self.connection.end_body()
            if self.phase == SENT and self.service is not None:
                self.deadline_s = self.router.now() + self.service.route.timeouts.answer_s

    def _hold(self, piece: bytes) -> None:
        self.body.append(piece)
        self.held += len(piece)
        self.router.held_bytes += len(piece)

    def drop_body(self) -> None:
        """Forget what was read of the body: the request is not sent again."""
        if self.body:
            self.router.held_bytes -= self.held
            self.held = 0
            self.body = []
        self.holds_body = self.body_bytes == 0

    def holds_enough(self) -> bool:
        """Return whether the client has to wait before it sends more of the body."""
        if self.connection is not None:
            return self.connection.blocked
        return self.phase in (WAITING, CONNECTING) and self.held >= HOLD_BYTES

    def advance(self) -> None:
        """Begin the request, or look at what has arrived of its body."""
        if self.phase == NEW:
            self._begin()
        elif self.phase == PEEKING:
            self._peek()
        elif self.phase == READING:
            self._read()

    def _begin(self) -> None:
        head, router = self.head, self.router
        if not head.request_id:
            head.request_id = router.make_request_id()
        refusal = self.refusal or router.admit(self)
        if refusal is not None:
            self.refuse(refusal)
            return
        target = self.target
        if target.kind == "service":
            self._read()
        elif target.kind == "model":
            boundary = find_boundary(head.lines)
            self.scanner = ModelScanner() if boundary is None else FormScanner(boundary)
            self._expect_body(PEEKING)
            self._peek()
        else:
            self.answer_locally(*router.pages.answer(target))

    def _expect_body(self, phase: int) -> None:
        """Begin to read the body: the client has some time for it, and more with each piece."""
        self.phase = phase
        self.deadline_s = self.router.now() + self.client.body_timeout_s
        if self.head.expects and not self.body_bytes:
            self.client.write(CONTINUE)

    def _read(self) -> None:
        """Hold the body until it is whole or large: a slow client takes no place at a replica."""
        router = self.router
        service = router.services.get(self.target.service)
        if service is None:
            self.refuse(refusals.no_service(b"/" + self.target.service.encode()))
        elif (
            self.complete
            or self.held >= REPLAY_BYTES
            or router.held_bytes > router.settings.max_held_bytes
            or service.dispatcher.is_full()
        ):
            self.enter(service)
        elif self.phase == NEW:
            self._expect_body(READING)
        else:
            self.phase = READING

    def _peek(self) -> None:
        """Look for the model in the body."""
        scanner, settings = self.scanner, self.router.settings
        assert scanner is not None
        model: str | None = None
        try:
            while model is None and self.seen < len(self.body):
                model = scanner.feed(self.body[self.seen])
                self.seen += 1
        except BadBody as error:
            self.refuse(refusals.no_model_in(self.target.target, str(error)))
            return
        if model is not None:
            service = self.router.models.get(model)
            if service is None:
                self.refuse(refusals.no_model(model))
            else:
                self.target = self.target._replace(service=service.name)
                self._read()
        elif self.complete:
            self.refuse(refusals.no_model_in(self.target.target, "the body names no model"))
        elif self.held > settings.max_peek_bytes:
            why = f"no model in the first {settings.max_peek_bytes:,} bytes of the body"
            self.refuse(refusals.no_model_in(self.target.target, why))
        elif self.router.held_bytes > settings.max_held_bytes:
            self.refuse(refusals.OVERLOADED)

    # ---- to a replica

    def enter(self, service: RoutedService) -> None:
        """Give the request to a replica of the service, or let it wait for one."""
        self.service = service
        service.arrivals += 1
        dispatcher = service.dispatcher
        if service.route.failed and not dispatcher.has_ready():
            self.refuse(refusals.service_failed(service.route.failed))
            return
        if dispatcher.is_full():
            refusal = refusals.queue_full(len(dispatcher.queue))
            self.phase, self.refusal = WAITING, refusal
            self.deadline_s = self.router.now() + service.route.timeouts.queue_s
            self.router.loop.call_later(REFUSAL_DELAY_S, self._refuse_late, refusal)
            return
        self.phase = WAITING
        self.deadline_s = self.router.now() + service.route.timeouts.queue_s
        replica = dispatcher.arrive(self)
        if replica is not None:
            self.start(replica)
        elif len(dispatcher.queue) == 1:
            service.note_queue()
            self.router.listener.on_demand(service.name)
        else:
            service.start_waiting()  # all that wait may be ones that the open replica failed to answer

    def _refuse_late(self, refusal: Refusal) -> None:
        if self.phase == WAITING and self.refusal is refusal:
            self.refuse(refusal)

    def start(self, replica: ReplicaLoad) -> None:
        """Send the request to this replica, over an idle connection or a new one."""
        service = self.service
        assert service is not None
        self.replica = replica
        self.phase = CONNECTING
        service.pools[replica].begin(self)

    def sent_over(self, connection: ReplicaConnection) -> None:
        """Note the connection over which the replica gets the request."""
        service = self.service
        assert service is not None
        self.connection = connection
        self.sends += 1
        self.phase = SENT
        timeout_s = service.route.timeouts.answer_s if self.complete else self.client.body_timeout_s
        self.deadline_s = self.router.now() + timeout_s
        if self.held > REPLAY_BYTES or service.route.retry == "never":
            self.drop_body()
        if self.head.expects and not self.complete and not self.body_bytes:
            self.client.write(CONTINUE)
        self.client.update_reading()

    def connect_failed(self, error: str) -> None:
        """Try another replica: this one accepts no connection."""
        service, replica = self.service, self.replica
        assert service is not None
        assert replica is not None
        again = may_send_again(service.route.retry, self.head.method, sends=0, answered=False, has_body=self.holds_body)
        service.note_failure(replica, error, ended=not again)
        service.connect_errors += 1
        self._leave_replica()
        if self.phase != DONE:
            if again:
                self._wait_again(replica)
            else:
                self.refuse(refusals.REPLICA_FAILED)
        service.start_waiting()

    def replica_failed(self, refusal: Refusal) -> None:
        """Handle the end of a replica's connection before the end of its answer."""
        service, replica = self.service, self.replica
        assert service is not None
        again = may_send_again(
            service.route.retry, self.head.method, sends=self.sends, answered=self.answered, has_body=self.holds_body
        )
        self._note_failure(refusal.message, ended=not again)
        self._leave_replica()
        if again:
            service.retries += 1
            self._wait_again(replica)
        elif self.answered:
            self.end(CUT)
            self.client.cut()
        else:
            self.refuse(refusal)
        service.start_waiting()

    def _note_failure(self, error: str, *, ended: bool = True) -> None:
        if self.service is not None and self.replica is not None:
            self.service.note_failure(self.replica, error, ended=ended)

    def _wait_again(self, failed: ReplicaLoad | None) -> None:
        service = self.service
        assert service is not None
        self.phase = WAITING
        self.deadline_s = self.router.now() + max(0.0, service.route.timeouts.queue_s - time.monotonic() + self.began_s)
        service.dispatcher.return_to_front(self, failed)

    def _leave_replica(self) -> None:
        """Free the place at the replica. A connection with a request under way is closed."""
        service, replica, connection = self.service, self.replica, self.connection
        self.replica = self.connection = None
        if connection is not None:
            connection.abandon()
        if service is not None and replica is not None:
            service.release(replica)

    # ---- the end

    def answer_complete(self) -> None:
        """End an exchange whose answer has been passed on whole. The connection has been given back."""
        service, replica = self.service, self.replica
        assert service is not None
        assert replica is not None
        self.replica = self.connection = None
        service.note_answer(replica, self.status)
        self.end(self.status)
        service.release(replica)
        service.start_waiting()

    def refuse(self, refusal: Refusal) -> None:
        """Answer with an error of the router."""
        self._abandon()
        self.end(refusal.status)
        self.client.write_refusal(self, refusal)

    def answer_locally(self, status: int, content_type: bytes, body: bytes) -> None:
        """Answer with a page of the router."""
        self.end(status)
        self.client.write_page(self, status, content_type, body)

    def tunnel_ended(self) -> None:
        """End a tunnel whose replica closed it."""
        self._abandon()
        self.end(self.status)

    def client_left(self) -> None:
        """Abort the request: its client is gone."""
        service, phase = self.service, self.phase
        if phase != DONE:
            code = self.status if phase == TUNNEL else GONE
            if phase == SENT and self.complete and service is not None and self.replica is not None:
                waited_s = self.router.now() - self.deadline_s + service.route.timeouts.answer_s
                if waited_s >= PATIENCE_S:
                    service.suspect(self.replica, f"no answer within {waited_s:.1f} s, when the client left")
            self._abandon()
            self.end(code)

    def expire(self) -> None:
        """Act on the deadline of the present phase."""
        service, phase = self.service, self.phase
        if phase == WAITING and service is not None:
            waited_s = service.route.timeouts.queue_s
            self.refuse(self.refusal or refusals.queue_timeout(waited_s, service.why_waiting()))
        elif phase == SENT and not self.complete and self.connection is not None and not self.connection.blocked:
            self.refuse(refusals.REQUEST_TIMEOUT)
        elif phase == SENT:
            self._note_failure(refusals.ANSWER_TIMEOUT.message)
            self.refuse(refusals.ANSWER_TIMEOUT)
        elif phase in (ANSWERING, TUNNEL):
            if phase == ANSWERING:
                self._note_failure("the answer paused for too long")
            self._abandon()
            self.end(CUT)
            self.client.cut()
        elif phase in (NEW, PEEKING, READING):
            self.refuse(refusals.REQUEST_TIMEOUT)

    def _abandon(self) -> None:
        """Leave the queue or the replica."""
        service = self.service
        if service is None:
            return
        if self.phase == WAITING:
            service.dispatcher.leave(self)
            service.note_queue()
        if self.phase == CONNECTING and self.replica is not None:
            service.pools[self.replica].stop_waiting(self)
        self._leave_replica()
        service.start_waiting()

    def end(self, code: int) -> None:
        """Count the request."""
        self.phase = DONE
        if self.held:
            self.router.held_bytes -= self.held
            self.held = 0
        self.body = []
        if self.service is not None:
            self.service.count(code, time.monotonic() - self.began_s)
