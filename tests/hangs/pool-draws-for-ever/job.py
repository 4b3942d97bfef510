"""Each worker draws a meeting point for its couriers until one is free."""
import json
import multiprocessing as mp
import os
import random


def say(event, **more):
    with open(os.environ["CORPUS_TRUTH"], "a") as f:
        f.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")


class Map:
    def __init__(self, free):
        self.free = free

    def draw(self):
        return random.randrange(1000), random.randrange(1000)

    def is_free(self, point):
        return point[0] in self.free and point[1] in self.free


def meet(courier):
    tries, town = 0, Map({3, 7} if courier == 0 else set(range(900)))
    if courier == 0:
        say("role", role="pool worker 0")
        say("culprit", thread="MainThread")
        say("settled")
        town.free.clear()
    while not town.is_free(point := town.draw()):  # CULPRIT
        tries += 1  # CULPRIT
    return point, tries


if __name__ == "__main__":
    say("root")
    say("role", role="main")
    with mp.get_context("fork").Pool(2) as pool:
        print(pool.map(meet, range(2), chunksize=1))
