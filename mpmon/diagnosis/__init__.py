"""Pure diagnosis: values in, values out; no clock, no files, no logging.

`History.add` folds snapshots, `diagnose` says what they mean.  From the ground up:

- `libraries`: what is known of libraries, a file of rows each; `copies`, `native_waits`, `shapes`: of copies of the standard
  library, of functions in C and C++, and of any library by the shape of a stack;
- `frames`, `waits`: what one thread waits in (frames, refined by the kernel's facts);
- `history`: since when each thread and process has not changed; `progress`: whether running means to get anywhere;
- `roles`, `tables`: who is who, and who holds the other end; `memory`: what of it is that of the round before;
- `case`: what each thread waits for and whether it moves, judged from those tables and the past;
- `needs`, `graph`: whom it waits for, and which set can never move;
- `knot`, `rules`: why, in the words of one cause; `collectives`, `links`, `numbers` and `managers` are ground that rules share;
- `merging`: frames of Python and of C in one list; `natives`: what those of C tell of a wait;
- `advice`, `gaps`, `holding`: what else to say: best practices, what could not be looked at, the locks of each frame;
- `gpus`, `ipc`, `remarks`: who is on which GPU; what processes share; what a person should know that is no hang;
- `engine`, `views`: verdict, findings, and a line for every process;
- `chronicle`: what happened from round to round.
"""

from mpmon.diagnosis.chronicle import Chronicle
from mpmon.diagnosis.engine import diagnose
from mpmon.diagnosis.history import History
from mpmon.diagnosis.memory import Memory

__all__ = ["Chronicle", "History", "Memory", "diagnose"]
