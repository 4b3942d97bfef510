"""All cases: those of `mpmon doctor --gpu`, and those that need more."""

from __future__ import annotations

from collections.abc import Sequence

from mpmon.doctor.gpu import ALL
from mpmon.doctor.gpu.case import Case
from tests.gpu import costs, hangs, remarks

CASES: Sequence[Case] = (*ALL, *hangs.CASES, *remarks.CASES, *costs.CASES)
