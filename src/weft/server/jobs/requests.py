"""Requests of users, from the call to the journal. Large ones are taken up in slices, between turns of the loop.

A batch of jobs is accepted as a whole. Its request is checked first; a file then holds it while its slices are
journalled; the answer follows the last slice. A server that was killed meanwhile finds the file and completes the
batch. A request that is sent again with the same key gets the ids of the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from weft.access.auth.identity import Caller
from weft.access.wire.messages import ChangeReply, ChangeRequest, SubmitReply, SubmitRequest
from weft.errors import InputError, JournalError, Refused
from weft.inputs.atomic import write_atomic
from weft.inputs.quantities import parse_array
from weft.model import Event, JobId, Seconds
from weft.node.engine.background import TaskSet
from weft.server.jobs.batch import SLICE_BYTES, SLICE_JOBS, OpenBatch, decode_batch
from weft.server.jobs.builder import check_total, size_of
from weft.server.jobs.commands import JobCommands
from weft.server.loop import RETRY_S, Loop
from weft.server.process.cpu_shares import metered, pause_payer, payer
from weft.server.process.slices import Steps, free, in_slices
from weft.server.shared_files import SharedFiles

REWRITES: Final = frozenset({"edit", "set", "restart", "restart-in-place"})
"""The verbs that journal each job in full."""
SUFFIX: Final = ".batch"
log = logging.getLogger(__name__)


class JobRequests:
    """Takes up submit and change requests. `folder` holds the batches that are being journalled; `files` are told."""

    def __init__(self, loop: Loop, folder: Path, commands: Callable[[], JobCommands], files: SharedFiles) -> None:
        self._loop, self._folder, self._commands, self._files = loop, folder, commands, files
        self.open_batches: list[OpenBatch] = []
        self._by_key: dict[tuple[str, str], asyncio.Future[SubmitReply]] = {}
        """Requests with a key that are being taken up."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The turns of each user's large requests: the jobs of one are made and journalled at a time."""
        self._tasks = TaskSet()

    # ---- submit

    async def submit(self, request: SubmitRequest, who: Caller) -> SubmitReply:
        """Submit the jobs of a request, all or none. Return once all of them are on disk."""
        if not is_large(request):
            return await self._submit(request, who)
        async with self._turns.setdefault(who.user, asyncio.Lock()):
            return await self._submit(request, who)

    async def _submit(self, request: SubmitRequest, who: Caller) -> SubmitReply:
        key = (who.user, request.key)
        while request.key and key in self._by_key:  # sent again meanwhile: the first one is still being taken up
            await asyncio.wait([self._by_key[key]])
        if ids := self._commands().known_ids(request, who.user):
            return SubmitReply(ids=ids)
        if not is_large(request):
            reply: SubmitReply = await self._loop.call(lambda now: self._commands().submit(request, now, who))
            return reply
        found: asyncio.Future[SubmitReply] = asyncio.get_running_loop().create_future()
        self._remember(key, found)
        commands = self._commands()
        try:
            batch = await in_slices(commands.prepare(request, who))
            if self._commands() is not commands:  # the numbers of these jobs may be given out again
                raise Refused("the scheduler was rebuilt meanwhile\n  nothing was queued; try again")
            limits = partial(self._commands().limit_groups, request, batch, who=who)
            limits(self._loop.clock.now())  # may raise
        except BaseException:
            found.cancel()
            raise
        notes = self._commands().notes(request, batch, self._loop.clock.now())
        if request.dry_run:
            found.cancel()
            reply = SubmitReply(notes=await in_slices(notes))
            await in_slices(free(batch.templates))
            return reply
        # in the turn of the check: the jobs count for quotas from now on
        opened = OpenBatch(batch, self._folder / f"{batch.templates[0].job.id}{SUFFIX}")
        self.open_batches.append(opened)
        work = self._accept(opened, limits, notes, found)
        self._tasks.spawn(work if (account := payer()) is None else metered(account, work))
        return await asyncio.shield(found)  # a caller that leaves does not end a batch in the middle

    def _remember(self, key: tuple[str, str], answer: asyncio.Future[SubmitReply]) -> None:
        if key[1]:
            self._by_key[key] = answer
            answer.add_done_callback(lambda _: self._by_key.pop(key, None))

    async def _accept(
        self,
        opened: OpenBatch,
        limits: Callable[[Seconds], list[Event]],
        notes: Steps[list[str]],
        answer: asyncio.Future[SubmitReply],
    ) -> None:
        try:
            said = await self._begin(opened, limits, notes)
            await self._write(opened)
            await self._journal(opened, gives_up=True)
            answer.set_result(SubmitReply(ids=opened.batch.ids(), notes=said))
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as error:
            answer.set_exception(error)
            answer.exception()  # it is retrieved even if the caller has left

    async def _begin(
        self, opened: OpenBatch, limits: Callable[[Seconds], list[Event]], notes: Steps[list[str]]
    ) -> list[str]:
        """Journal the limits of the groups before any of the jobs. Return the notes."""
        try:
            said = await in_slices(notes)
            await self._loop.call(lambda now: (limits(now), None))
            return said
        except Exception:
            self.open_batches.remove(opened)
            raise

    async def _write(self, opened: OpenBatch) -> None:
        try:
            content = await in_slices(opened.batch.encode())
            await asyncio.to_thread(write_atomic, opened.path, content, durable=True)
            await asyncio.to_thread(self._files.store, opened.path)
        except JournalError:
            self._close(opened)
            raise
        except OSError as error:
            self.open_batches.remove(opened)
            raise Refused(
                f"cannot write {opened.path}: {error.strerror}\n  nothing was queued; free some space and try again"
            ) from None

    async def _journal(self, opened: OpenBatch, *, gives_up: bool) -> None:
        """Journal the rest of a batch, slice by slice. With `gives_up`, raise if the very first slice fails."""

        def accept(now: Seconds) -> tuple[list[Event], None]:
            return self._commands().accept(opened.next_slice(), now), None

        while opened.left:
            await pause_payer()
            try:
                await self._loop.call(accept)
            except Refused as error:
                opened.put_back()
                if gives_up and opened.left == opened.batch.count:
                    self._close(opened)
                    raise
                log.error("%d jobs of a batch are still to come: %s", opened.left, error)
                await asyncio.sleep(RETRY_S)
            else:
                opened.advance()
        self._close(opened)

    def _close(self, opened: OpenBatch) -> None:
        self.open_batches.remove(opened)
        opened.path.unlink(missing_ok=True)
        self._files.removed(opened.path)

    # ---- batches that a server has left unfinished

    def load(self, known: Container[JobId]) -> None:
        """Read the batches that the last server could not complete. `known` jobs are in the journal."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            try:
                opened = OpenBatch(decode_batch(path.read_bytes()), path)
            except JournalError as error:
                log.error("%s: %s", path, error)
                continue
            opened.skip(known)
            self.open_batches.append(opened)

    def resume(self) -> None:
        """Journal the rest of the batches that were loaded."""
        for opened in list(self.open_batches):
            log.info("completing a batch of %d jobs: %d are missing", opened.batch.count, opened.left)
            found: asyncio.Future[SubmitReply] = asyncio.get_running_loop().create_future()
            self._remember((opened.batch.user, opened.batch.key), found)
            self._tasks.spawn(self._complete(opened, found))

    async def _complete(self, opened: OpenBatch, done: asyncio.Future[SubmitReply]) -> None:
        try:
            await self._journal(opened, gives_up=False)
        finally:
            done.cancel()

    # ---- change

    async def change(self, request: ChangeRequest, who: Caller) -> ChangeReply:
        """Change jobs. A request for many of them is no transaction: a server that dies leaves some unchanged."""
        ids = await in_slices(self._commands().select(request, who))
        if request.verb in REWRITES:
            check_total(len(ids) * (request.spec.ByteSize() + sum(each.ByteSize() for each in request.settings)))
        some = self._slice(ids, request.verb)
        reply, done = await self._change_some(some, request), len(some)
        while done < len(ids):
            await pause_payer()
            some = self._slice(ids[done : done + SLICE_JOBS], request.verb)
            reply.MergeFrom(await self._change_some(some, request))
            done += len(some)
        return reply

    def _slice(self, ids: Sequence[JobId], verb: str) -> Sequence[JobId]:
        """Return the first of these jobs, to change in one turn of the loop."""
        jobs, size = self._loop.scheduler.state.jobs, 0
        for count, each in enumerate(ids[:SLICE_JOBS] if verb in REWRITES else ()):
            size += size_of(jobs[each].job) if each in jobs else 0
            if size > SLICE_BYTES:
                return ids[: max(1, count)]
        return ids[:SLICE_JOBS]

    async def _change_some(self, ids: Sequence[JobId], request: ChangeRequest) -> ChangeReply:
        reply: ChangeReply = await self._loop.call(lambda now: self._commands().change_some(ids, request, now))
        return reply

    async def close(self) -> None:
        await self._tasks.close()


def is_large(request: SubmitRequest) -> bool:
    """Return whether a request has too many jobs, bytes of jobs, or references to jobs, for one turn of the loop."""
    count, env_bytes = len(request.jobs), sum(each.ByteSize() for each in request.env)
    total = 0
    for spec in request.jobs if count <= SLICE_JOBS else ():
        tasks = 1
        if spec.array:
            with suppress(InputError):  # it is refused later
                tasks = len(parse_array(spec.array)[0])
        count += len(spec.after) + tasks - 1
        total += tasks * (spec.ByteSize() + env_bytes)
        if count > SLICE_JOBS or total > SLICE_BYTES:
            return True
    return count > SLICE_JOBS
