"""Does a thread, or its process, make progress?  Every decision about that is made here.

Being scheduled proves nothing: a loop that retries forever runs too.  From the smallest scope to the largest:

- `motion`: one thread, by its counters and samples: not scheduled, polling, in a busy loop, progressing;
- `loop_progress`: whether top-level code loops without progress; `news`: whether a task that computes does; `state_change`:
  whether state reachable from a polling loop changes;
- `activity`: visible effects of a process that seems to loop without progress;
- `ticking`: threads that only wake, check or write a line, and sleep again.

The first four need only the history of one thread, the others also need roles.  Every constant is next to its use,
with the reason or the measurement it is based on.
"""
