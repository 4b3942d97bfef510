"""GPUs, as NVIDIA's management library (NVML) reports them, queried in a separate process.

A driver call may never return, and may crash the calling process, so the main loop makes none. A helper process does: it is
started when GPUs are first needed, answers one line of JSON per round, and exits with mpmon, however mpmon ends. One of its
threads walks the devices; if a call does not return, that thread and that device are abandoned, and another thread
continues with the other devices.

Modules of the loop: `client` is the probe, `child` its handle on the helper, `pids` works out whose pids the driver reports.
Modules of the helper: `helper` answers, `tasks` abandons stuck calls, `device` builds the rows, from `fields`, `processes`
and `instances`; `events` waits for Xids, `calls` makes the calls, `suspended` checks whether GPUs are suspended.
Both use `wire`, their protocol, and `words`, return codes as sentences.

Pitfalls of the library that are handled here, from nvml.h (API version 13) and from what other monitors have run into:

- Process utilisation: NOT_FOUND is idle, NOT_SUPPORTED is unknown; samples are requested since the newest one, because
  the driver's buffer keeps old ones; the size it asks for is a capacity; pids that are on no list are garbage.
- Process lists: a pid may be in several lists and instances (one row for each instance, never added up twice); v3 of the
  first drivers 535 has 32-byte entries for a 24-byte struct, which scrambles the pids: then v2 is used.
- Memory: v2 reports memory reserved by the driver separately, v1 does not; all ones, or more than the device has, is unknown.
- Field values may be written one entry past the requested count.
- Initialising the library wakes a suspended GPU: not done while all of them are suspended.
- The package is `nvidia-ml-py`; the deprecated package `pynvml` has the same module and lacks what is needed.

Confirmed on an H100 with driver 580: the figures, the lists, and that imported CUDA memory is not charged to the importing
process (`mpmon explain confirmed`).  There the calls of a round took 2.5 ms of CPU per device, nearly all of it for process
samples; the maximum clock took 1.4 ms, the power limit and MIG 0.2 ms each, PCIe 42 ms.
Not confirmed on a GPU, only on a library that behaves as the sources say: that an event set reports Xids to any user and does
not keep a GPU awake; that the recovery action is a 32-bit number; which of the three pid namespaces a driver uses in a
container; that the lists of a MIG instance hold all its processes.
A helper whose thread is stuck in the kernel is killed like any other, but is gone only when the kernel lets go of it.
"""
