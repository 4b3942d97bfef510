"""Pure diagnosis: values in, values out; no clock, no files, no logging.

`History.add` folds snapshots, `diagnose` interprets them.  From the bottom layer up (an import contract checks the order):

- `thresholds`: every time, share and count that decides something, each with its reason; `findings`: what a diagnosis says;
  `memo`: results reused from the previous round;
- `libraries`: knowledge of libraries, a file of rows each;
- `stacks`: what one thread's stack says that it waits for;
- `roles`: the role of each process;
- `state`: every thread and process, judged with the help of `progress` (does running code make progress), `ranks`, `ipc` (what
  processes share) and `gpus`;
- `graph`, `edges`: the wait-for graph, and whom each thread waits for, a file for each kind of resource; `event_loops`: their
  tasks; `suspects`, `missing_data`: where a thread stands, and what could not be read;
- `stuck`: a closed set of the graph, with its root blockers and the chain to them;
- `responsibility`: who has to move first;
- `criteria`, `advice`, `rules`: what separates the causes, what to do by what is known, and a file for each cause;
- `verdict`: whether a stuck set is a hang of the job;
- `explanation`: the finding in words, with its evidence;
- `throughput`, `remarks`: how fast the job works; warnings that are not a hang;
- `engine`: the diagnosis of one round; `event_log`: what changed from round to round.
"""

from mpmon.diagnosis.engine import diagnose
from mpmon.diagnosis.event_log import EventLog
from mpmon.diagnosis.memo import Memo
from mpmon.diagnosis.state.history import History

__all__ = ["EventLog", "History", "Memo", "diagnose"]
