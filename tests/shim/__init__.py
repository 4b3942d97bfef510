"""The queue shim in real jobs: what it records, and that the job notices nothing of it.

`programs/` are jobs that know nothing of mpmon, so that each can run with the shim and without.
Tests with "standin" in their names send CUDA memory that is none: `tests.ipc.standin` says what that means.
"""
