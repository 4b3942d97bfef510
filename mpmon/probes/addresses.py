"""The IP addresses of this machine."""

from __future__ import annotations

import ipaddress
import socket

import psutil


def addresses() -> tuple[str, ...]:
    """The IP addresses of this machine's network interfaces, without loopback and without the zones of link-local ones."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = (
        row.address.partition("%")[0]
        for rows in psutil.net_if_addrs().values()
        for row in rows
        if row.family in families
    )
    return tuple(sorted({address for address in found if not ipaddress.ip_address(address).is_loopback}))
