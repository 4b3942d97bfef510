"""Street tables. They take a few seconds to load, so that is done beside the import."""
import threading
import time

_districts = {}
_lock = threading.Lock()


def _load():
    try:
        for part in range(23):
            time.sleep(0.1)
            _districts[part] = {"lat": 47.0 + part / 100, "lon": 8.0 + part / 50}
    finally:
        _lock.release()


def find(address):
    number, _, rest = address.partition(" ")
    with _lock:  # CULPRIT
        district = _districts[int(rest.rsplit(" ", 1)[1])]
    return district["lat"] + int(number) / 1e5, district["lon"]


_lock.acquire()
threading.Thread(target=_load, name="geo-load", daemon=True).start()
