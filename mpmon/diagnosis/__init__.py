"""Pure diagnosis: values in, values out; no clock, no files, no logging.

`History.add` folds snapshots, `diagnose` interprets them.  From the bottom layer up:

- `thresholds`: every time, share and count that decides something, each with its reason;
- `libraries`: knowledge of libraries, a file of rows each; `copies`, `native_waits`, `shapes`: of copies of the standard
  library, of functions in C and C++, and of any library by the shape of a stack;
- `frames`, `waits`: the call one thread waits in (from frames, refined by the kernel's facts);
- `history`: since when each thread and process has been unchanged; `progress`: whether running code makes progress;
- `roles`, `snapshot_index`: the role of each process, and who holds the other end; `memo`: results reused from
  the previous round;
- `thread_waits`, `thread_motions`, `job_state`: what each thread waits for and whether it makes progress, from those tables
  and the history; `ranks`: which ranks there are, and how those differ that wait for one another;
- `edges`, `graph`: the wait-for graph: whom each thread waits for, which sets are stuck, and who blocks them; `requests` and
  `deadlocks`: what is stuck although the main program makes progress; `responsibility`: who has to move first;
- `stuck_set`, `rules`: the cause, and the sentences for it; `parts`, `losses`, `crossed_waits`, `links` and `manager_calls`:
  shared by rules; `queue_ledgers`, `joinable_queue`, `crashed_siblings`: facts about queues and the dead;
- `merging`: Python and C frames in one list; `natives`: what the C frames tell about a wait;
- `advice`, `missing_data`, `lock_annotations`: additions: best practices, what could not be checked, the locks of each frame;
- `gpus`, `ipc`, `remarks`: who uses which GPU; what processes share; warnings that are not a hang;
- `symptoms`, `explain`, `ranking`: the cause where no rule knows one; a finding with its sentence and evidence; which are told;
- `goals`, `idle`, `patience`: whose progress counts; who waits by right; how long something has to stand still;
- `engine`, `views`: the verdict; a line for every process;
- `event_log`: what changed from round to round.
"""

from mpmon.diagnosis.engine import diagnose
from mpmon.diagnosis.event_log import EventLog
from mpmon.diagnosis.history import History
from mpmon.diagnosis.memo import Memo

__all__ = ["EventLog", "History", "Memo", "diagnose"]
