"""The types of columns with their units, and the base of all rows."""

from __future__ import annotations

from typing import Annotated

import msgspec

Moment = Annotated[float, msgspec.Meta(ge=0.0, lt=253_370_764_800.0, extra={"of": "a clock"})]
"""Seconds since the epoch, up to the year 9999, where calendars end."""


AnyMoment = Annotated[float, msgspec.Meta(extra={"of": "a clock"})]
"""Seconds since the epoch, chosen by the job: not necessarily within the calendar."""


Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]
"""A quantity reported by a machine."""


Pid = Annotated[int, msgspec.Meta(extra={"of": "a pid namespace"})]
"""The number of a process or thread."""


Name = Annotated[str, msgspec.Meta(extra={"of": "a kernel"})]
"""A name that is specific to a machine: a kernel object, a control group, a device."""


DeviceNumber = Annotated[int, msgspec.Meta(extra={"of": "a kernel"})]
"""The same, as a number."""


Turn = Annotated[tuple[int, ...], msgspec.Meta(min_length=2)]
"""The position of a loop's iterator: see `Stack.turns`."""


CallPlace = tuple[str, int, int]
"""Where a thread waits: system call, stack pointer, program counter; "running" and two zeros for one on a CPU."""


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all rows: frozen, compared by value, unknown fields of later versions ignored when read.

    Rows never form cycles, so the garbage collector need not look at the thousands of them.
    """
