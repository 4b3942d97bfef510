"""Reading what the queue shim (`mpmon.shim`) wrote down in the processes of a job.

`folders` tells where the files lie, `file` makes rows of one of them, `probe` keeps the rows of a whole job up to date, and
`cleaning` removes the files of dead jobs.

The files are another process's to write, at any moment and by mistake too: they are read with pread, never mapped, since a
mapped file that is cut would be a SIGBUS; every number is checked, and a record that does not fit its seal is left out.
What others than a process's user, or root, could have written is not used at all, and the report says so.
Nothing is asked of the job, so its files can be read while it is stopped, hangs with the GIL held, or is dead.
"""

from mpmon.probes.shim.cleaning import clean, refusal, usual_folders
from mpmon.probes.shim.probe import ShimProbe

__all__ = ["ShimProbe", "clean", "refusal", "usual_folders"]
