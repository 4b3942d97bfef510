"""mpmon tells why a multi-process Python job hangs."""

__version__ = "0.1.0"
