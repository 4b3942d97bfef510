"""Real programs, watched through the real /proc and by the real py-spy.

Each program of `programs/` makes one situation and then writes one line of JSON with its pids, so no test waits for time
to pass where it could wait for an event.
"""
