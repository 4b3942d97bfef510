"""Rows without new data."""

from __future__ import annotations

import msgspec

from mpmon.model import GpuProcess

LOAD = ("sm_percent", "sample_age_s")


def without_load(users: tuple[GpuProcess, ...], reason: str) -> tuple[GpuProcess, ...]:
    """The rows without their load: their memory is likely unchanged, but an old load does not describe the present."""
    return tuple(
        msgspec.structs.replace(
            user, sm_percent=None, sample_age_s=None, reasons={**user.reasons, **dict.fromkeys(LOAD, reason)}
        )
        for user in users
    )
