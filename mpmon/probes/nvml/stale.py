"""Rows without new data."""

from __future__ import annotations

import msgspec

from mpmon.model import GpuProcess

LOAD = ("sm_percent", "sample_age_s")


def without_load(users: tuple[GpuProcess, ...], reason: str) -> tuple[GpuProcess, ...]:
    """Their memory is likely to be what it was; what they did a while ago is not what they do now."""
    return tuple(
        msgspec.structs.replace(
            user, sm_percent=None, sample_age_s=None, reasons={**user.reasons, **dict.fromkeys(LOAD, reason)}
        )
        for user in users
    )
