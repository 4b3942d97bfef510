"""Which rank is on which GPU: joins of the driver's lists with the job's processes.

The driver's lists are the truth about where a context is; the environment is a hint about how CUDA counts devices.

- `shares`: how much of each device a process uses, alone and together with its workers;
- `visible`: cuda:N, by CUDA_VISIBLE_DEVICES as the process had it at its start;
- `joins`: the same over a `JobState`, for the topics of `mpmon.diagnosis.remarks`: which processes use a device, which rank
  owns it, its readings of the last minutes.
"""

from mpmon.diagnosis.gpus.shares import Device, Share, branches, device_of
from mpmon.diagnosis.gpus.visible import Ordinal, Visible, ordinals, visible

__all__ = ["Device", "Ordinal", "Share", "Visible", "branches", "device_of", "ordinals", "visible"]
