"""Recorded hangs, one folder a case: `recording.jsonl.gz`, what mpmon saw, and `expected.toml`, what was true.

`python -m tests.hangs.record CASE_FOLDER` makes such a folder from a program that really hangs.
`tests/diagnosis/test_hangs.py` tries them all, so a new case needs no new code.
"""
