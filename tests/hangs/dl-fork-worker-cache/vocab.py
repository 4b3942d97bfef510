"""Words by number, kept fresh by a thread of this module."""

import threading
import time

LOCK = threading.Lock()
REFRESHING = threading.Event()
WORDS = {}


def refresh():
    with LOCK:
        REFRESHING.set()
        time.sleep(3.0)  # a slow server
        WORDS.update({number: f"word {number}" for number in range(1000)})


threading.Thread(target=refresh, daemon=True).start()


def get(number):
    """The word, from the cache."""

    with LOCK:  # CULPRIT
        return WORDS.get(number, "")
