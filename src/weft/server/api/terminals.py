"""The terminals of runs: two streams of bytes, one from a client and one from the agent of the node, joined here.

The agent opens its stream when the scheduler asks for it, apart from the one for its orders. Neither side can send
faster than the other reads: gRPC holds it back.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from weft.access.auth.identity import caller, check_owner
from weft.access.wire import messages as m
from weft.errors import InputError, NotFound, Refused, WeftError
from weft.model import NodeId
from weft.model.slots import nodes_of
from weft.scheduling.core.state.job import JobState
from weft.server.controller import Controller
from weft.server.jobs.job_refs import resolve_one
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler

AGENT_TIMEOUT_S: Final = 60.0
"""Time within which an agent must open its stream."""
MAX_WAITING: Final = 100
"""Clients that may wait for an agent at a time."""


@dataclass
class _AgentEnd:
    """The stream of an agent. It stays open until `done` is set."""

    parts: AsyncIterator[m.TerminalPart]
    context: Any
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Terminals:
    """Joins clients and agents, by a secret that the scheduler sends to the agent."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._waiting: dict[str, asyncio.Future[_AgentEnd]] = {}

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Callable[..., Any]] = {"OpenTerminal": self.open, "ServeTerminal": self.serve}
        return handler(methods.__getitem__, "Terminals")

    async def open(self, parts: AsyncIterator[m.TerminalPart], context: Any) -> None:
        """Serve a client. Its first part names the job and the run, and a command to run next to it, if any."""
        try:
            agent = await self._agent_of(await anext(parts))
            try:
                await _join(parts, context, agent)
            finally:
                agent.done.set()
        except StopAsyncIteration:
            return
        except WeftError as error:
            await abort(context, error)

    async def serve(self, parts: AsyncIterator[m.TerminalPart], context: Any) -> None:
        """Serve an agent. Its first part repeats the secret."""
        try:
            first = await anext(parts)
            waiting = self._waiting.pop(first.key, None)
            if waiting is None or waiting.done():
                raise NotFound("no client waits for this terminal")
            end = _AgentEnd(parts, context)
            waiting.set_result(end)
            await end.done.wait()
        except StopAsyncIteration:
            return
        except WeftError as error:
            await abort(context, error)

    async def _agent_of(self, first: m.TerminalPart) -> _AgentEnd:
        state, who = self._controller.scheduler.state, caller()
        job = state.jobs[resolve_one(state, first.job, who.user)]
        check_owner(who, job.job)
        if not first.command and (job.job.task is None or not job.job.task.terminal):
            raise InputError(f"job {job.id} has no terminal", hint="weft run --pty gives a job one")
        if job.status != "running" or job.run != first.run:
            raise NotFound(f"run {first.run} of job {job.id} does not run")
        if len(self._waiting) >= MAX_WAITING:
            raise Refused(f"{MAX_WAITING} clients wait for their terminals\n  try again later")
        key, node = secrets.token_hex(16), _node_of(job, first.node)
        answer: asyncio.Future[_AgentEnd] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        try:
            order = m.ServeTerminal(key=key, job=job.id, run=job.run, command=first.command, terminal=first.terminal)
            if not self._controller.ports.send_to(node, m.SchedulerMessage(terminal=order)):
                raise Refused(f"node {node} is not connected\n  try again later")
            async with asyncio.timeout(AGENT_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise Refused(f"node {node} did not open the terminal within {AGENT_TIMEOUT_S:.0f} s") from None
        finally:
            self._waiting.pop(key, None)


def _node_of(job: JobState, wanted: NodeId) -> NodeId:
    """Return the node of a run that a client wants; the first one if it names none."""
    nodes = nodes_of(job.placed)
    if wanted and wanted not in nodes:
        raise NotFound(f"job {job.id} does not run on {wanted!r}\n  its nodes: {', '.join(nodes)}")
    return wanted or nodes[0]


async def _join(parts: AsyncIterator[m.TerminalPart], context: Any, agent: _AgentEnd) -> None:
    """Pass bytes on in both directions until one side ends."""

    async def pass_on(source: AsyncIterator[m.TerminalPart], target: Any) -> None:
        async for part in source:
            code = part.exit_code if part.HasField("exit_code") else None
            await target.write(m.TerminalPart(data=part.data, exit_code=code))

    ways = [
        asyncio.ensure_future(pass_on(parts, agent.context)),
        asyncio.ensure_future(pass_on(agent.parts, context)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
