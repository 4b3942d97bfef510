"""mpmon tells why a multi-process Python job hangs: which process blocks the others, on which line, and the proof.

The map of the house, from the ground up; nothing below knows what is above (checked by import contracts):

- `model`: every fact, as frozen rows in flat tables; `rows`: tables that share what did not change; `codec`: rows to JSON
  and back; `errors`: failures with remedies; `start`: another Python of ours.
- `probes/`: ask the machine, one file a question: processes, kernel, sockets, stacks, semaphores, rights; `interpreter/`
  reads what CPython knows of its threads, `flight_recorder/` what torch wrote down of its collectives, `nccl_ras/` what NCCL
  says of them.
- `diagnosis/`: pure. Frames and system calls become waits, waits a graph, a closed set of the graph a finding.
- `nodes/`: a job on many machines: facts of all of them become one snapshot.
- `source`: what a stream of observations looks like; `reel`: those of the past that are kept; `session/`: the loop,
  recordings, live and replayed streams.
- `reports/`, `tui/`, `serve/`: an observation as text, as JSON, as a screen, as a screen in a browser. `doctor`, `jobs`,
  `demo/`: what surrounds a look.
- `alarm/`: calls a command of the user's when a hang begins and ends.
- `export/`: an observation as numbers for Prometheus.
- `signals`: what the screen sends to processes, on the user's word only; `launch`: starts a job of the user's.
- `shim/`: runs inside the job and writes down what it does with its queues; knows nothing of all this, and `probes/shim/`
  reads what it wrote.
- `commands/`: arguments to a source and a sink, one file a command; `shells`: how a shell completes them; `manual/`: pages
  about mpmon itself, which `explain` prints; `cli` chooses the command; `console` has the standard streams; `__main__` prints
  failures and sets the exit status.

Data goes one way: probes make a `Snapshot`, the history folds snapshots, the diagnosis of the history and the snapshot are
an `Observation`, and every view shows observations.  A recording holds snapshots, so any later version diagnoses it anew.

What differs from a plain layering: `diagnosis/needs` is a package of its own between waits and graph, because whom a
thread waits for is where most knowledge gathers; the graph only knows *any of these* and *all of these*, and the rules
only name a cause for what the graph has found.
"""

__version__ = "0.2.0"
