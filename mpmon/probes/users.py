"""Names of users, from the machine's own file only: a directory service may take seconds to answer, or never answer."""

from __future__ import annotations

USERS_FILE = "/etc/passwd"
_LIMIT = 1 << 20
"""Most bytes read of it."""


def user_names(path: str = USERS_FILE) -> dict[int, str]:
    """Name by user id: passwd(5). Of several names of one id the first; empty if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LIMIT).decode("utf-8", "replace")
    except OSError:
        return {}
    names: dict[int, str] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2].isdigit():
            names.setdefault(int(fields[2]), fields[0])
    return names


def name_of(uid: int) -> str:
    """The name of a user, or the number if the file has no name."""
    return user_names().get(uid, f"uid {uid}")
