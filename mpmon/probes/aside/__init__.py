"""Calls that may never return, made in a helper process.

A read of a process's memory faults if the page belongs to a file on a dead NFS server; a stat, open or listing there
hangs too. Such a wait ignores signals, in the worst case even SIGKILL, and a process in it cannot exit. So mpmon itself
makes no call that can block on a file system of the job's: a call of a function marked with `may_hang` is made in a
helper process, which returns the result. A call that makes no progress for `PATIENCE_S` is abandoned with `Unanswered`,
an `OSError` like any other; the helper abandons that thread and continues in another one. While the call has not
returned, the same question about the same process fails at once. When mpmon ends, the helper is killed and not waited
for.

Progress is what the kernel reports of the helper's thread: if it is runnable or has run since, the call is merely slow.

- `calls`: the mark, and many calls at once: what the probes use.
- `client`: the helper as seen from mpmon.
- `hosted`: whole probes that live in the helper;
- `helper`: the other side; `wire`: the messages between the two, and the failure.

Both sides are the same mpmon of the same user, so results are pickled and rows need no second description.
If a `Proc` has no helper (tests on recorded trees, a machine without room for a process), calls are made in place.
"""

from mpmon.probes.aside.calls import in_turn, may_hang
from mpmon.probes.aside.client import Aside
from mpmon.probes.aside.wire import Unanswered

__all__ = ["Aside", "Unanswered", "in_turn", "may_hang"]
