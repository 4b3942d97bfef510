"""Calls that may never return, made in a helper process.

A read of a process's memory faults when the page belongs to a file on a dead NFS server; so does a stat, an open or a list of
a folder there.  Such a wait ignores signals, in the worst case even SIGKILL, and whoever is in it cannot exit.
So mpmon itself makes no call that can block on a file system of the job's: a function marked with `may_hang` is sent to
a helper process and its result comes back.  A call that makes no headway for `PATIENCE_S` is given up with `Unanswered`, an
`OSError` like any other; the helper leaves that thread behind and goes on in another one.  While the call has not returned,
the same question about the same process is not asked again.  When mpmon ends, the helper is killed and not waited for.

Headway is what the kernel says of the helper's thread: one that is runnable, or has run since, is slow because the machine is.

- `calls`: the mark, many calls at once, and the failure; what the probes see.
- `client`: the helper as seen from mpmon.
- `hosted`: whole probes that live there;
- `helper`: the other side; `wire`: what goes between them.

Both sides are the same mpmon of the same user, so results are pickled: rows need no second description.
Where no helper is attached to a `Proc` (tests on recorded trees, a machine without room for a process), calls are made in place.
"""

from mpmon.probes.aside.calls import Unanswered, in_turn, may_hang
from mpmon.probes.aside.client import Aside

__all__ = ["Aside", "Unanswered", "in_turn", "may_hang"]
