"""The learner sends its weights once, by CUDA IPC; the actors send it what they did, in tensors of the GPU."""
import json, os, time

import torch
import torch.multiprocessing as mp


def truth(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)


def act(weights_queue, done):
    truth("role", role="actor")
    weights = weights_queue.get()
    state = torch.randn(64, 512, device="cuda")
    while True:
        for _ in range(20):
            state = torch.tanh(state @ weights)
        done.put(state.clone())
        time.sleep(0.02)


def main():
    truth("root")
    truth("role", role="learner")
    context = mp.get_context("spawn")
    weights_queue, done = context.Queue(), context.Queue(8)
    actors = [context.Process(target=act, args=(weights_queue, done), daemon=True) for _ in range(2)]
    for actor in actors:
        actor.start()
    weights = torch.randn(512, 512, device="cuda") / 22
    for _ in actors:
        weights_queue.put(weights)
    step = 0
    while True:
        batch = done.get()
        weights += 1e-6 * (batch.T @ batch)
        step += 1
        if step == 200:
            truth("settled")


if __name__ == "__main__":
    main()
