"""The imperative shell: the loop that makes snapshots, recordings, and the sources every mode iterates.

- `watch`: a live job and a recording as streams of observations; `clock`: the time of a live job; `cadence`: the
  interval between rounds;
- `recording`: snapshots in a file;
- `sampler`: one round, which makes one snapshot of a job; `side_probe`: queries to probes that run beside the loop;
- `activity`, `schedule`, `budget`: which threads have run, which are due for a thorough look, how many looks are allowed;
- `thorough`, `look`: the thorough looks, the result of one; `holders`: who holds an awaited object; `joined`: all as
  tables;
- `connections`: connections that stuck processes wait on, read again; `nccl_ras`: NCCL, queried once per hang;
- `loops`: the tasks of event loops; `nesting`: what is around the calls of ranks in different collectives; `carried`: what the
  loops of tasks that compute carry from turn to turn;
- `spots`: where the main threads of ranks are between looks;
- `natives`: the C and C++ frames of the threads that a finding is about.
"""
