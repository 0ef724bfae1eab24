"""The slowdown of an opportunistic job (AntMan), which uses its GPUs while another job leaves them free."""

from __future__ import annotations

from functools import cache
from math import floor

from weft.model import Profile


@cache
def host_cycles_per_iteration(guest: Profile, host: Profile) -> float:
    """Return the host's iterations per iteration of the guest, which may use a stage only while the host does not."""
    data, gpu, network = guest.data_s, guest.gpu_s, guest.network_s
    host_data, host_gpu, host_network = host.data_s, host.gpu_s, host.network_s
    cycles, rest = _gaps(data, host_gpu + host_network)
    if rest > 0:
        cycles += 1
        gpu -= min(gpu, host_network, host_gpu + host_network - rest)
    more, rest = _gaps(gpu, host_data + host_network)
    cycles += more
    if rest > 0:
        cycles += 1
        if rest < host_data:
            network -= min(network, host_data + host_gpu - rest)
    more, rest = _gaps(network, host_data + host_gpu)
    cycles += more
    if rest > host_data:
        cycles += 1
    return cycles


def _gaps(need: float, gap: float) -> tuple[float, float]:
    """Return how many gaps of the host a stage fills, and the rest. Without a gap, the two take turns.

    As in the original, quotient and rest are rounded separately: 0.111 s fill 222 gaps of 0.0005 s, and a rest remains.
    `divmod` would return 221 gaps.
    """
    if gap > 0:
        return float(floor(need / gap)), need % gap
    return (2.0 if need > 0 else 0.0), 0.0
