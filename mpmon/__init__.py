"""mpmon explains why a multi-process Python job hangs: which process blocks the others, on which line, and the evidence.

The layout, from the bottom layer up; no layer imports one above it (checked by import contracts):

- `model`: every fact, as frozen rows in flat tables; `rows`: tables that share unchanged rows; `codec`: rows to JSON
  and back; `errors`: failures with remedies; `start`: starts another Python process of mpmon.
- `probes/`: query the machine, one file per question: processes, kernel, sockets, stacks, semaphores, rights; `interpreter/`
  reads what CPython knows about its threads, `flight_recorder/` what torch recorded about its collectives, `nccl_ras/` what
  NCCL reports about them.
- `diagnosis/`: pure. Frames and system calls become waits, waits become a graph, a closed set of the graph becomes a finding.
- `nodes/`: a job on many machines: the facts of all machines become one snapshot.
- `source`: the interface of a stream of observations; `snapshot_buffer/`: past observations that are kept; `session/`: the
  main loop, recordings, live and replayed streams.
- `reports/`, `tui/`, `serve/`: an observation as text, as JSON, as a screen, as a screen in a browser. `doctor`, `jobs`,
  `demo/`: auxiliary commands.
- `alarm/`: runs a user's command when a hang begins and ends.
- `export/`: an observation as Prometheus metrics.
- `signals`: what the screen sends to processes, only when the user confirms; `launch`: starts a user's job.
- `shim/`: runs inside the job and records what it does with its queues; imports nothing of the above, and `probes/shim/`
  reads its records.
- `commands/`: turn arguments into a source and a sink, one file per command; `shells`: shell completion; `manual/`: pages
  about mpmon itself, which `explain` prints; `cli` selects the command; `console` has the standard streams; `__main__` prints
  failures and sets the exit status.

Data flows one way: probes make a `Snapshot`, the history folds snapshots, the snapshot and its diagnosis form
an `Observation`, and every view shows observations.  A recording holds snapshots, so any later version diagnoses it anew.

One layer is unusual: `diagnosis/edges` is a separate package between waits and graph, because most of the knowledge is about
whom a thread waits for; the graph only knows *any of these* and *all of these*, and the rules only name a cause for
what the graph has found.
"""

__version__ = "0.2.0"
