"""The iterations of the host during one of its guest's: AntMan's k, computed by hand."""

from __future__ import annotations

import pytest

from support.builders import profile
from weft.model import Profile
from weft.scheduling.weaving.colocated import host_cycles_per_iteration

CASES: dict[str, tuple[Profile, Profile, int]] = {
    # host 2, 1, 1. data 1 of G+N=2 begun: 1; the GPU stage gets min(3, 1, 1) = 1 for free; 2 of D+N=3 begun: 2;
    # 2 is not below D=2; network 1 of D+G=3, not beyond D=2: 2.
    "a rest in each stage": (profile(1, 3, 1), profile(2, 1, 1), 2),
    # data 4 = 2 x 2, no rest; GPU 6 = 2 x 3; network 3 = 1 x 3: 5.
    "no rest anywhere": (profile(4, 6, 3), profile(2, 1, 1), 5),
    # host 1, 1, 1. data 3: 1 and a rest of 1: 2; GPU 5 - min(5, 1, 1) = 4: 2 x 2, no rest: 4; network 3: 1, and a rest
    # of 1, not beyond 1: 5.
    "rest of data only": (profile(3, 5, 3), profile(1, 1, 1), 5),
    # host 4, 1, 1. data 0; GPU 1 of 5 begun: 1; 1 < 4, so network 3 - min(3, 5 - 1) = 0: 1.
    "network passes with the GPU stage": (profile(0, 1, 3), profile(4, 1, 1), 1),
    # host 1, 3, 1. data 0, GPU 0; network 3 of 4 begun, beyond D=1: 1.
    "network beyond the host's data": (profile(0, 0, 3), profile(1, 3, 1), 1),
    # the same, 1 of 4, not beyond D=1: it passes for nothing.
    "network within the host's data": (profile(0, 0, 1), profile(1, 3, 1), 0),
}


@pytest.mark.parametrize(("guest", "host", "k"), CASES.values(), ids=CASES)
def test_cycles(guest: Profile, host: Profile, k: int) -> None:
    assert host_cycles_per_iteration(guest, host) == k


@pytest.mark.parametrize("host", [profile(0, 1, 0), profile(1, 0, 0), profile(0, 0, 1)])
def test_a_host_that_uses_one_stage_only(host: Profile) -> None:
    assert host_cycles_per_iteration(profile(1, 1, 1), host) >= 0
