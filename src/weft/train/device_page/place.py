"""The place of this process on a device page: claimed once, freed at its end."""

from __future__ import annotations

import atexit
import os
import weakref

from weft.train.device_page.layout import BadPage, PageFull
from weft.train.device_page.page import Page, page_paths, this_owner

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from mmap import mmap

    from weft.train.device_page.layout import Owner


class Place:
    """A claimed slot of one page."""

    def __init__(self, path: str, owner: Owner) -> None:
        self.page, self.owner = Page(path), owner
        try:
            self.index = self.page.claim(owner)
        except BaseException:
            self.page.close()
            raise
        self._pid = os.getpid()
        _places.add(self)

    @property
    def memory(self) -> mmap:
        return self.page.memory

    def leave(self) -> None:
        """Free the slot. In a forked child it stays the parent's."""
        if os.getpid() == self._pid:
            self.page.release(self.index, self.owner)
        self.page.close()


_places: weakref.WeakSet[Place] = weakref.WeakSet()


def join(kind: int, env: Mapping[str, str]) -> list[Place]:
    """Claim a slot on each page of this process. A page that cannot be used is left out: sharing is then advisory."""
    found = []
    for path in page_paths(env):
        try:
            found.append(Place(path, this_owner(kind, env)))
        except (OSError, BadPage, PageFull) as error:
            _warn(f"does not share {path}: {error}")
    return found


def _warn(text: str) -> None:
    import warnings

    warnings.warn(f"weft {text}", RuntimeWarning, stacklevel=4)


@atexit.register
def _leave_all() -> None:
    for place in list(_places):
        try:
            place.leave()
        except (OSError, ValueError):  # the engine frees it
            continue
