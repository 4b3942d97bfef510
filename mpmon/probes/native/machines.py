"""What differs between kinds of processor: how frame information numbers registers (the psABI of each)."""

from __future__ import annotations

import platform
from typing import NamedTuple


class Machine(NamedTuple):
    """One kind of processor. Registers have DWARF numbers."""

    name: str
    number: int
    """e_machine of elf(5)."""
    stack_pointer: int
    program_counter: int
    frame_pointer: int
    kept: frozenset[int]
    """Callee-saved registers."""
    address_bits: int
    """Significant bits of a return address; the bits above may hold a signature (pointer authentication)."""
    follows_signals: bool
    """Whether frame information leads from a signal handler to the code it interrupted."""
    reads_code: bool
    """Whether calls and prologues are understood, so that a lost frame can be searched for."""
    is_sampled: bool
    """Whether the registers that perf copies are known (`samples`)."""


X86_64 = Machine(
    name="x86_64", number=62, stack_pointer=7, program_counter=16, frame_pointer=6,
    kept=frozenset({3, 6, 12, 13, 14, 15}), address_bits=64, follows_signals=True, reads_code=True, is_sampled=True,
)  # fmt: skip

AARCH64 = Machine(
    name="aarch64", number=183, stack_pointer=31, program_counter=32, frame_pointer=29,
    kept=frozenset(range(19, 30)), address_bits=48, follows_signals=False, reads_code=False, is_sampled=False,
)  # fmt: skip

_KNOWN = {"x86_64": X86_64, "AMD64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}


def machine_of(name: str | None = None) -> Machine | None:
    """By the name of uname(2), by default this machine's; `None` for an unsupported one."""
    return _KNOWN.get(platform.machine() if name is None else name)
