"""Hugging Face transformers."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(rank_words=("is_world_process_zero", "is_local_process_zero"))
