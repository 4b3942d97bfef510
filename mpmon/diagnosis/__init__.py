"""Pure diagnosis: values in, values out; no clock, no files, no logging.

`History.add` folds snapshots, `diagnose` interprets them.  From the bottom layer up:

- `thresholds`: every time, share and count that decides something, each with its reason;
- `libraries`: knowledge of libraries, a file of rows each; `copies`, `native_waits`, `shapes`: of copies of the standard
  library, of functions in C and C++, and of any library by the shape of a stack;
- `frames`, `waits`: the call one thread waits in (from frames, refined by the kernel's facts);
- `history`: since when each thread and process has been unchanged; `progress`: whether running code makes progress;
- `roles`, `tables`: the role of each process, and who holds the other end; `memory`: the parts reused from the previous round;
- `case`: what each thread waits for and whether it makes progress, from those tables and the history;
- `edges`, `graph`: the wait-for graph: whom each thread waits for, which sets are stuck, and who blocks them;
- `stuck_set`, `rules`: the cause, and the sentences for it; `collectives`, `links`, `numbers` and `managers`: shared by rules;
- `merging`: Python and C frames in one list; `natives`: what the C frames tell about a wait;
- `advice`, `gaps`, `holding`: additions: best practices, what could not be checked, the locks of each frame;
- `gpus`, `ipc`, `remarks`: who uses which GPU; what processes share; warnings that are not a hang;
- `engine`, `views`: verdict, findings, and a line for every process;
- `chronicle`: the event log from round to round.
"""

from mpmon.diagnosis.chronicle import Chronicle
from mpmon.diagnosis.engine import diagnose
from mpmon.diagnosis.history import History
from mpmon.diagnosis.memory import Memory

__all__ = ["Chronicle", "History", "Memory", "diagnose"]
