"""Queues of every kind between two processes, that do what a line says: `put bounded 4`, `get bounded 1`, `done joinable 1`,
`send bounded 3`, which another process does that ends, `hold`.
"""

import json
import multiprocessing
import os
import sys


def say(**facts):
    print(json.dumps(facts), flush=True)


def name_of(queue):
    return f"pipe:{os.fstat(queue._reader.fileno()).st_ino}"


def take(queues, orders, answers):
    while True:
        call, name, count = orders.get()
        answers.put([getattr(queues[name], call)() for _ in range(count)])


def send(queue, count):
    for number in range(count):
        queue.put(number)


def wait_for_ever(queue):
    queue.get()


def main(method):
    context = multiprocessing.get_context(method)
    queues = {
        "bounded": context.Queue(7),
        "unbounded": context.Queue(),
        "joinable": context.JoinableQueue(3),
        "simple": context.SimpleQueue(),
    }
    orders, answers = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=take, args=(queues, orders, answers), daemon=True)
    child.start()
    say(child=child.pid, names={name: name_of(queue) for name, queue in queues.items()})
    waiters = []
    while words := sys.stdin.readline().split():
        if words[0] == "put":
            for number in range(int(words[2])):
                queues[words[1]].put(number)
            # A feeder thread may have sent nothing yet.
            queues[words[1]]._reader.poll(30) if hasattr(queues[words[1]], "_reader") else None
            say(done=words)
        elif words[0] in ("get", "done"):
            orders.put(({"get": "get", "done": "task_done"}[words[0]], words[1], int(words[2])))
            say(done=words, got=answers.get())
        elif words[0] == "send":
            sender = context.Process(target=send, args=(queues[words[1]], int(words[2])))
            sender.start()
            sender.join()
            say(done=words)
        elif words[0] == "join":
            say(done=words)
            queues["joinable"].join()
        elif words[0] == "fill":
            say(done=words)
            queues["bounded"].put("x")
        elif words[0] == "hold":
            waiters += [
                context.Process(target=wait_for_ever, args=(queues["unbounded"],), daemon=True) for _ in range(2)
            ]
            for waiter in waiters:
                waiter.start()
            say(waiters=[waiter.pid for waiter in waiters])
        elif words[0] == "renew":
            queues["unbounded"].close()
            queues["unbounded"].join_thread()
            del queues["unbounded"]
            queues["unbounded"] = context.Queue(9)
            say(name=name_of(queues["unbounded"]))
    child.kill()


if __name__ == "__main__":
    main(sys.argv[1])
