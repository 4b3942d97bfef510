"""What the jobs here have in common: to say where they are, and to wait for a word."""

import json
import sys


def say(**facts):
    print(json.dumps(facts), flush=True)


def wait_for_word():
    return sys.stdin.readline().strip()
