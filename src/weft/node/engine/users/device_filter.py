"""A filter of device files for a control group of version 2: a program in the kernel, assembled here by hand.

Version 2 has no controller for devices. The kernel asks the programs of a process's group instead (BPF).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final

DeviceNumber = tuple[int, int]
"""The major and minor number of a character device."""
_BPF: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
"""The number of the system call."""
_PROG_LOAD, _PROG_ATTACH = 5, 8
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE = 15, 6
_ALLOW_MULTI = 2
_CHARACTER: Final = 2
_TYPE_AT, _MAJOR_AT, _MINOR_AT = 0, 4, 8
"""Where the kernel puts what a process asks for."""
_LOAD_WORD, _AND, _MOVE, _JUMP_IF_NOT, _JUMP_IF, _EXIT = 0x61, 0x57, 0xB7, 0x55, 0x15, 0x95
_libc: Final = ctypes.CDLL(None, use_errno=True)


def is_supported() -> bool:
    """Return whether this process may load such filters."""
    if os.geteuid() or os.uname().machine not in _BPF:
        return False
    try:
        os.close(_load([(0, 0)]))
    except OSError:
        return False
    return True


def attach(group: str, denied: Sequence[DeviceNumber]) -> None:
    """Keep the processes of a group, whose folder this is, from these devices."""
    program = _load(denied)
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _call(_PROG_ATTACH, struct.pack("=IIIII", folder, program, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI, 0))
    finally:
        os.close(program)  # the group keeps it
        os.close(folder)


def assemble(denied: Sequence[DeviceNumber]) -> bytes:
    """Return the program: 0 for one of these character devices, otherwise 1."""
    count = len(denied)
    program = [
        _instruction(_LOAD_WORD, 2, 1, _TYPE_AT),
        _instruction(_AND, 2, value=0xFFFF),
        _instruction(_JUMP_IF_NOT, 2, offset=2 * count + 2, value=_CHARACTER),
        _instruction(_LOAD_WORD, 3, 1, _MAJOR_AT),
        _instruction(_LOAD_WORD, 4, 1, _MINOR_AT),
    ]
    for position, (major, minor) in enumerate(denied):
        to_deny = 2 * (count - position - 1) + 2
        program += [
            _instruction(_JUMP_IF_NOT, 3, offset=1, value=major),
            _instruction(_JUMP_IF, 4, offset=to_deny, value=minor),
        ]
    program += [
        _instruction(_MOVE, 0, value=1),
        _instruction(_EXIT),
        _instruction(_MOVE, 0, value=0),
        _instruction(_EXIT),
    ]
    return b"".join(program)


def _instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, source << 4 | target, offset, value)


def _load(denied: Sequence[DeviceNumber]) -> int:
    """Load the program into the kernel, and return its descriptor."""
    code, licence = ctypes.create_string_buffer(assemble(denied)), ctypes.create_string_buffer(b"GPL")
    size = (len(code) - 1) // 8
    return _call(
        _PROG_LOAD,
        struct.pack("=IIQQIIQII", _TYPE_CGROUP_DEVICE, size, ctypes.addressof(code), ctypes.addressof(licence),
                    0, 0, 0, 0, 0),
    )  # fmt: skip


def _call(command: int, arguments: bytes) -> int:
    given = ctypes.create_string_buffer(arguments)
    found: int = _libc.syscall(_BPF.get(os.uname().machine, -1), command, given, len(arguments))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found
