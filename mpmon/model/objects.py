"""What processes share or wait on, by its identity in the kernel, and who has it open."""

from __future__ import annotations

from mpmon.model.columns import AnyMoment, Moment, Name, Pid, Row


class KernelObject(Row, frozen=True, kw_only=True):
    """Something processes share or wait on, by its identity in the kernel."""

    id: Name
    """`pipe:INODE`, `socket:INODE`, `semaphore:DEV:INODE`, `futex:PID:ADDRESS`, `file:DEV:INODE`, `pty:NUMBER`,
    `eventfd:ID` (of fdinfo), `mount:DEV`.
    """
    kind: str
    """pipe, fifo, socket, semaphore, mutex, futex, file, file lock, mount (a file system that somebody else serves), terminal,
    pty (the master side of one), eventfd, epoll, inotify, pidfd, timerfd, null, other.
    """
    path: str | None = None
    """File name, or for a socket its addresses."""
    fill: int | None = None
    """Unread bytes; of a listening socket the connections not accepted yet."""
    capacity: int | None = None
    """Bytes a pipe can hold."""
    value: int | None = None
    """Value of a semaphore; the word of a mutex between processes."""
    waiters: int | None = None
    """Threads waiting in a semaphore."""
    owner_tid: Pid | None = None
    """Owner word of a native mutex, also of one between processes: the thread that took it, dead or alive."""
    peer: Name | None = None
    """Id of the socket at the other end, when it is on this machine; of a pty's master side the terminal."""
    listens: bool = False
    """A listening socket."""
    listener: Name | None = None
    """For a connection not accepted yet: id of the listening socket in whose queue it is."""
    sent_at: Moment | None = None
    """When the last byte went over a TCP connection, or when it was made, seconds since the epoch."""
    received_at: Moment | None = None
    """When the last byte came over a TCP connection, or when it was made, seconds since the epoch."""
    sent_bytes: int | None = None
    """Total bytes sent over a TCP connection from this end; `None` before Linux 4.19."""
    acknowledged_at: Moment | None = None
    """When the last acknowledgement came over a TCP connection, or when it was made, seconds since the epoch."""
    unread_by_peer: int | None = None
    """Of one of a pair of unix sockets (socketpair(2)): bytes that it has sent and its peer has not read, with what the kernel
    needs to keep them.
    """
    unacknowledged_bytes: int | None = None
    """Bytes written to a TCP connection, sent or still to be sent, that the other end has not acknowledged."""
    resends: int | None = None
    """How often in a row the kernel has retransmitted the same bytes of a TCP connection, each time after a longer wait,
    because no acknowledgement came; 0 if it is not waiting for one, for example when the other end has no room (tcp_diag of
    net/ipv4).
    """
    holders: tuple[Pid, ...] = ()
    """Pids that hold a lock on the file: whose open files have it, by `lock:` of proc_pid_fdinfo(5); else by proc_locks(5),
    which names the one who took it, also when only a child that inherited the open file still has it."""
    sharers: tuple[Pid, ...] = ()
    """Those of them that share a read lock; empty in old recordings."""
    takers: tuple[Pid, ...] = ()
    """Processes that took the lock of a file and have closed that open file: `holders` inherited it through a fork. Empty in
    old recordings.
    """

    def kept_by(self, pid: Pid) -> tuple[Pid, ...]:
        """Of a file, those who keep its lock from a process: whoever has one; from a process that has a lock too, say on another
        range of the file as SQLite does, only who has his alone.
        """
        others = tuple(holder for holder in dict.fromkeys(self.holders) if holder != pid)
        return tuple(holder for holder in others if holder not in self.sharers) if pid in self.holders else others


class Handle(Row, frozen=True, kw_only=True):
    """One process has one object open or mapped, so it could wake threads that wait on it."""

    pid: Pid
    object: Name
    fd: int | None = None
    """Descriptor, `None` for a mapping."""
    reads: bool = True
    writes: bool = True
    path: str | None = None
    """Name of the file it was opened by; `None` for an object without a name, such as a pipe."""


class Mount(Row, frozen=True, kw_only=True):
    """A file system with an external server (NFS, SMB, Lustre, FUSE ...) whose files processes of the job use."""

    device: Name
    """Hexadecimal `MAJOR:MINOR`, as in the ids of its files."""
    kind: str
    """`nfs4`, `fuse.sshfs` ..."""
    source: str
    """`server:/export`, as proc_pid_mountinfo(5) names it."""
    path: str
    """Its path as the processes see it."""
    pids: tuple[Pid, ...] = ()
    """Pids that use it: open files, what a thread is blocked in, mappings of one that waits for a page."""
    asked_at: AnyMoment | None = None
    """When its server was last asked, seconds since the epoch; `None` if unknown."""
    unanswered_since: AnyMoment | None = None
    """When it was asked and has not answered since; `None` for one that answers."""
    problem: str | None = None
    """What it answered with instead of its size: `transport endpoint is not connected`."""
