"""Which values of an environment are not shown to whoever looks over the user's shoulder. Pure.

Rather one too many than one too few: names are judged by parts of words, values by their form.
"""

from __future__ import annotations

import re

MASK = "******"

TELLING = (
    "AUTH", "COOKIE", "CREDENTIAL", "CRED", "DSN", "JWT", "KEY", "PASS", "PRIVATE", "PSK", "PWD", "SALT", "SECRET", "SESSION",
    "SIGNATURE", "TOKEN", "WEBHOOK",
)  # fmt: skip
"""Parts of names whose values are secret."""

HARMLESS = frozenset(
    {"PWD", "OLDPWD", "XDG_SESSION_CLASS", "XDG_SESSION_DESKTOP", "XDG_SESSION_TYPE", "DESKTOP_SESSION"}
)
"""Names that look like secrets and are none."""

URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
"""`user:password` before the host of a URL: RFC 3986, 3.2.1."""

URL_SECRET = re.compile(r"(?i)([?&;](?:[^=&;\s]*(?:key|token|secret|sig|signature|password|pwd))=)[^&;\s]+")
"""A parameter of a URL or of a connection string."""

KNOWN_FORMS = re.compile(
    r"^(?:gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|AIza|npm_|pypi-|ya29\.|eyJ[\w-]+\.eyJ)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""How tokens of well-known services and private keys begin."""


def shown(name: str, value: str) -> str:
    """The value with what is secret of it masked; the very same value when nothing is."""
    if not value:
        return value
    upper = name.upper()
    if upper not in HARMLESS and any(part in upper for part in TELLING):
        return MASK
    if KNOWN_FORMS.search(value):
        return MASK
    return URL_SECRET.sub(rf"\1{MASK}", URL_PASSWORD.sub(rf"\1:{MASK}", value))
