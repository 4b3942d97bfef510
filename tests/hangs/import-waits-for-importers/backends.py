"""Decoders by file ending; every backend module registers itself here."""
import importlib
from concurrent.futures import ThreadPoolExecutor

DECODERS = {}


def register(ending):
    def add(f):
        DECODERS[ending] = f
        return f
    return add


def decode(path):
    return DECODERS[path.rsplit(".", 1)[1]](path)


def _load_all(names):
    with ThreadPoolExecutor(2, thread_name_prefix="backend") as pool:
        return list(pool.map(importlib.import_module, names))  # CULPRIT


_load_all(["backend_npy", "backend_jpg"])
