"""Reading what the queue shim (`mpmon.shim`) recorded in the processes of a job.

`folders` finds the files, `file` turns one of them into rows, `probe` keeps the rows of a whole job up to date, and
`cleaning` removes the files of dead jobs.

Another process may write the files at any moment, also by mistake: they are read with pread, never mapped, since truncating a
mapped file would cause a SIGBUS; every number is checked, and a record that does not match its seal is left out.
A file that anyone but the process's user or root could have written is not used at all, and the report says so.
Nothing is asked of the job, so its files can be read while it is stopped, hangs with the GIL held, or is dead.
"""

from mpmon.probes.shim.cleaning import clean, refusal, usual_folders
from mpmon.probes.shim.probe import ShimProbe

__all__ = ["ShimProbe", "clean", "refusal", "usual_folders"]
