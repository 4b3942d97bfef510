"""How fast a job works.

- `rates`: items a second of each queue and process; `pace`: the steps of each rank, and which rank the others wait for;
- `figures`: which machine of many differs from the others.
"""
