"""A job on the emulated device that can be woven: python -I -S woven.py WORK FILE ITERATION DATA GPU NET [ORDER].

It has WORK seconds of work when it runs alone, in iterations of ITERATION seconds. Woven, an iteration is three stages
of DATA, GPU and NET seconds, and the job takes turns by the protocol of `weft.train.weave`. `WEFT_WEAVE_FILE` names the
weave that counts. `WEFT_DEVICE_FACTORS`, such as `2=1.33,3=1.5`, makes stages longer in weaves of that size.

In lock-step (`slots`) no stage is ever shared, so a hold is a sleep. In other orders a thread loads the data of the
next iteration meanwhile, and the server of the node shares the resources. Only the first process of a gang works; the
others wait for its end.
"""

from __future__ import annotations

import posix
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/weft/")[0])

from weft.train.emulated import program
from weft.train.emulated.program import EXIT_CHECKPOINTED, StopRequested

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.train.weave.member import Member

LOOK_S = 0.1
"""Seconds between two looks at the weave file while the job runs alone."""
FOLLOW_S = 0.05
END_SUFFIX = ".end"
STAGES = ("data", "gpu", "net")
ROUNDING = 1e-9
"""Sums of stages may miss a whole iteration by this part of it."""


class Weave:
    """The weave that the weave file names, joined on demand."""

    def __init__(self, path: str, factors: dict[int, float]) -> None:
        self._path, self._factors = path, factors
        self._seen: object = None
        self.member: Member | None = None
        self.factor = 1.0

    def look(self) -> Member | None:
        """Return the place in the weave that counts now; None if the job is not woven."""
        try:
            found = posix.stat(self._path) if self._path else None
        except FileNotFoundError:
            found = None
        seen = None if found is None else (found.st_ino, found.st_mtime_ns)
        if seen != self._seen:
            self._seen = seen
            self._join({} if seen is None else self._read())
        return None if self.member is None or self.member.failure else self.member

    def _read(self) -> dict[str, object]:
        import json

        with open(self._path, "rb") as file:
            found: dict[str, object] = json.load(file)
        return found

    def _join(self, body: dict[str, object]) -> None:
        from weft.train.weave.layout import BadState
        from weft.train.weave.member import Member

        self.leave()
        if not body.get("dir"):
            return
        self.factor = self._factors.get(int(str(body["size"])), 1.0)
        try:
            self.member = Member(str(body["dir"]), int(str(body["place"])))
        except (OSError, BadState) as error:  # tokens are for speed: go on without them
            program.say(f"runs unwoven: {error}")

    def leave(self) -> None:
        if self.member is not None:
            self.member.leave()
            self.member = None


class Job:
    """The work of the job, in seconds alone, with stages in lock-step: one after the other.

    `done_s` is exact at any instant at which the job may be stopped.
    """

    def __init__(self, work_s: float, iteration_s: float, stages_s: tuple[float, ...], weave: Weave) -> None:
        self.work_s, self.iteration_s, self.stages_s, self.weave = work_s, iteration_s, stages_s, weave
        self.done_s = 0.0

    def run(self, began: float) -> None:
        """Work to the end, alone or woven, as the weave file says. `began`: since when the job works alone."""
        since = began
        while self.done_s < self.work_s:
            member = self.weave.look()
            if member is None:
                try:
                    time.sleep(min(self.work_s - self.done_s, LOOK_S))
                finally:
                    now = time.monotonic()
                    self.done_s, since = self.done_s + now - since, now
            else:
                self.iterate(member)
                since = time.monotonic()

    def iterate(self, member: Member) -> None:
        """Do what is left of one iteration, stage by stage."""
        whole_s = sum(self.stages_s)
        begun = int(self.done_s / self.iteration_s + ROUNDING)
        at = max(self.done_s / self.iteration_s - begun, 0.0) * whole_s  # in seconds of the stages
        end = min((self.work_s - begun * self.iteration_s) / self.iteration_s, 1.0) * whole_s
        first = 0.0
        for stage, length_s in zip(STAGES, self.stages_s, strict=True):
            last = first + length_s
            if at < min(last, end):
                member.acquire(stage, never)
                self._hold(min(last, end) - at, self.iteration_s / whole_s)
                member.release(stage)
                at = last
            first = last
        self.done_s = min((begun + 1) * self.iteration_s, self.work_s)

    def _hold(self, seconds: float, worth: float) -> None:
        """Hold a stage. Each of its seconds is `worth` this much of the work."""
        began = time.monotonic()
        try:
            time.sleep(seconds * self.weave.factor)
        except StopRequested:
            self.done_s += min((time.monotonic() - began) / self.weave.factor, seconds) * worth
            raise
        self.done_s += seconds * worth


def never() -> bool:
    """Return False: a request to stop raises, so that a wait need not look for it."""
    return False


def main(words: list[str]) -> int:
    work_s, file, iteration_s = float(words[0]), program.save_file(words[1]), float(words[2])
    began = time.monotonic() - program.process_age_s()
    if program.environment("WEFT_NODE_RANK", "0") != "0":
        return _follow(file)
    weave = Weave(program.environment("WEFT_WEAVE_FILE"), _factors(program.environment("WEFT_DEVICE_FACTORS")))
    job = _kind(words[6:])(work_s, iteration_s, tuple(map(float, words[3:6])), weave)
    job.done_s = program.load(file)
    try:
        program.raise_on_stop()
        program.say(f"{work_s:.3f} s of work, from {job.done_s:.3f} s")
        job.run(began)
        program.ignore_stop()
    except StopRequested:
        if job.done_s < work_s:
            program.save(file, job.done_s)
            weave.leave()
            program.say(f"saved at {job.done_s:.3f} s")
            return EXIT_CHECKPOINTED
    weave.leave()
    program.save(file + END_SUFFIX, work_s)
    program.mark_done()
    return 0


def _kind(order: list[str]) -> type[Job]:
    if order in ([], ["slots"]):
        return Job
    from weft.train.emulated.ahead import ReadAheadJob

    return ReadAheadJob


def _follow(file: str) -> int:
    """Wait for the end of the first process of the gang."""
    try:
        program.raise_on_stop()
        while not _exists(file + END_SUFFIX):
            time.sleep(FOLLOW_S)
        program.ignore_stop()
    except StopRequested:
        return EXIT_CHECKPOINTED
    program.mark_done()
    return 0


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except FileNotFoundError:
        return False
    return True


def _factors(text: str) -> dict[int, float]:
    pairs = (word.partition("=") for word in text.split(",") if word)
    return {int(size): float(factor) for size, _, factor in pairs}


if __name__ == "__main__":
    posix._exit(main(sys.argv[1:]))  # skip what an interpreter does at its end: it would delay the next run
