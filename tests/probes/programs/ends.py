"""Stands in a call whose variables lead to connections and sockets."""

import multiprocessing as mp
import socket
import sys


def serve(one, several, pair, numbers, closed):
    print(one.fileno(), *(each.fileno() for each in several), *(each.fileno() for each in pair), flush=True)
    sys.stdin.readline()


class Server:
    def __init__(self, one, other):
        self.name, self.one, self.others = "server", one, {"other": other}

    def serve(self, *args):
        print(self.one.fileno(), *(each.fileno() for each in self.others.values()), end=" ", flush=True)
        serve(*args)


def main():
    ends = [end for _ in range(3) for end in mp.Pipe()]
    ended = ends.pop()
    ended.close()
    Server(ends[3], ends[4]).serve(ends[0], ends[1:3], socket.socketpair(), [3, 4, 5], ended)


if __name__ == "__main__":
    main()
