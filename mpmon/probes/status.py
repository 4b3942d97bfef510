"""Fields of proc_pid_status(5), and their formats."""

from __future__ import annotations


def status_fields(text: str) -> dict[str, str]:
    """Each line's value by its name."""
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def first_int(text: str | None) -> int | None:
    """The first of the numbers in a field."""
    return int(text.split()[0]) if text else None


def count_of_mask(text: str | None) -> int | None:
    """The bits of a hexadecimal mask in words of 32: `ff,ffffffff` is 40 CPUs."""
    return int(text.replace(",", ""), 16).bit_count() if text else None


def has_signal(mask: str | None, number: int) -> bool:
    """Whether a signal is in a hexadecimal mask of signals."""
    return mask is not None and bool(int(mask, 16) >> (number - 1) & 1)
