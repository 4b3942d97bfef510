"""Queues, tensors and reference counts that processes of a job share, read from outside, with nothing prepared in the job.

Everything here can be read of a job that hangs or was stopped:

- `looks`: what one process maps and has open: files of torch, semaphores, and how near it is to its limits;
- `storages`: those files: tensors on the CPU, and the reference counts of CUDA memory sent to other processes;
- `leftovers`: files that no process maps: on their way to a receiver, or left behind by dead processes;
- `tmpfs`: the /dev/shm that holds them, a different one in each container;
- `queues`: multiprocessing queues: their items, bytes in their pipes, putters and getters;
- `probe`: all of this once per round, and the cost limit of a round.

Files are read with pread(2) and never mapped: a tmpfs that is full answers a touch of an empty page with SIGBUS.
"""

from mpmon.probes.ipc.probe import IpcProbe

__all__ = ["IpcProbe"]
