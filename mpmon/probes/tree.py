"""The processes of a job: its root, all below it, and those that were re-parented and lead nowhere else."""

from __future__ import annotations

from collections import defaultdict

from mpmon.probes.stat import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from mpmon.probes.files import Proc

OWN_HELPERS = frozenset({"py-spy"})
"""Programs mpmon itself starts; never part of a job, even if mpmon runs inside one."""


def is_own(pid: int, name: str, own: int | None) -> bool:
    """This mpmon, whose pid among those processes is `own`, or a program that an mpmon starts."""
    return pid == own or name in OWN_HELPERS


class Tree:
    """The tree of one job."""

    def __init__(self, proc: Proc, root_pid: int, root: Stat) -> None:
        self._proc = proc
        self._root_pid = root_pid
        self._root_pgid = root.pgid
        self._root_start_ticks = root.start_ticks
        self.kin: frozenset[int] = frozenset()
        """Processes that have something only the job can have given them, whatever their group and session."""

    def joining(self, stats: Mapping[int, Stat], members: Container[int]) -> list[int]:
        """The ones of these processes that belong to the job, given its members so far: parents before their children."""
        own, below = self._proc.own_pid(), defaultdict[int, list[int]](list)
        for pid, stat in stats.items():
            if not is_own(pid, stat.name, own):
                below[stat.ppid].append(pid)
        others = {pid for pids in below.values() for pid in pids}
        tops = [pid for pid in others if pid == self._root_pid or stats[pid].ppid in members]
        others.difference_update(_all_below(tops, below))
        # Only of the rest, which are few, the parent is read.
        tops += [pid for pid in others if self._is_left_behind(pid, stats[pid])]
        return _all_below(tops, below)

    def _is_left_behind(self, pid: int, stat: Stat) -> bool:
        return (stat.pgid == self._root_pgid or pid in self.kin) and self._is_orphan(stat)

    def _is_orphan(self, stat: Stat) -> bool:
        """Its parent is a reaper (init or a subreaper): a process of another session that did not start it."""
        if stat.start_ticks <= self._root_start_ticks:
            return False
        parent = Stat.read(self._proc, stat.ppid)
        return stat.ppid == 1 or parent is None or parent.sid != stat.sid


def _all_below(tops: Iterable[int], below: Mapping[int, Iterable[int]]) -> list[int]:
    """These processes and all below them, level by level."""
    found, level = dict[int, None](), sorted(tops)
    while level:
        found.update(dict.fromkeys(level))
        level = sorted({child for pid in level for child in below.get(pid, ())} - found.keys())
    return list(found)
