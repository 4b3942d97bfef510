"""Whether a stuck set makes the job hang: whose progress counts, who waits by right, how long is too long.

- `goals`: the threads whose progress decides; `patience`: how long something has to stand still;
- `idle`: goals that wait by right for an event from outside;
- `requests`, `deadlocks`: what is stuck although the main program makes progress.
"""
