"""The imperative shell: the loop that makes snapshots, recordings, and the sources every mode iterates.

- `watch`: a live job and a recording as streams of observations; `clock`: the time of the live one;
- `recording`: snapshots in a file;
- `sampler`: one round, which makes one snapshot of a job; `side_probe`: what it asks of probes that work beside the loop;
- `activity`, `schedule`, `budget`: who has run, who is due for a thorough look, how many looks may be made;
- `thorough`, `look`, `holders`, `joined`: those looks, what one of them found, who holds what is waited for, all as tables;
- `connections`: those that standing processes wait on, looked at again; `nccl_ras`: NCCL, asked once a hang;
- `spots`: where the main threads of ranks are between looks;
- `natives`: the C and C++ frames of the threads that a finding is about.
"""
