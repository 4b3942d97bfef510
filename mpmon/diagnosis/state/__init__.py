"""The state of every thread and process: one snapshot with its history, judged.

- `history`: since when each has been unchanged; `spots`: what ranks do between samples;
- `snapshot_index`: rows by the keys they are asked for, upon `process_index`, `thread_index`, `object_index`, all with the help
  of `joins`; `retried_locks`: file locks that are tried again and again;
- `thread_waits`, `thread_motions`: what each thread waits for, and whether it makes progress;
- `job_state`: all of these together, which every layer above asks.
"""
