"""Scores of the structure of the diagnosis, over all recorded hangs.

That each recording is diagnosed as it was in truth (`tests/diagnosis/test_hangs.py`) does not tell whether mechanisms found
it or a branch that was written for this one recording.  These scores do: how much the graph knows without the rules, how
much hangs on the order of the rules, how many rules want the same stuck set, how many branches serve one recording only.

`python -m tests.scores` prints them, with `--misses` the cases behind each number.  `test_scores.py` guards them.
"""
