"""Faults put into healthy jobs that are being watched: most people watch first, and hang later.

Six shapes of jobs (`tests/live/programs/healthy/`) run and are watched; at a moment that nobody announces, one thing goes
wrong at one place, and who was hit is known.  What is asked of mpmon: no *hung* before; then *hung*, and the one that was hit
named, at its line; and no change of mind after that.  Where the fault can be taken back, the job is healthy again.

`python -m tests.faults --seeds 0 200` does this for many and prints what came of each; `test_faults.py` for some.
"""
