"""Recorded hangs, one folder a case: `recording.jsonl.gz`, what mpmon saw, and `expected.toml`, what was true.

Where the program is known, `job.py` is what ran, and `case.toml` how it is run and what is right to say of it: then
`python -m tests.hangs.record NAME` records it once more.  `python -m tests.hangs.record FOLDER` makes a new case of a
program that really hangs.
`tests/diagnosis/test_hangs.py` tries them all, so a new case needs no new code.
"""
