"""Hugging Face accelerate."""

from __future__ import annotations

from mpmon.diagnosis.libraries.rows import Library

LIBRARY = Library(launchers=("accelerate",))
