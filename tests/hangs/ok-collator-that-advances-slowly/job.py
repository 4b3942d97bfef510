"""A collate function that cuts texts behind the last stop of each block takes long for one without any."""

import json
import os

import torch
from torch.utils.data import DataLoader


def say(event, pid=0, **more):
    line = json.dumps({"event": event, "pid": pid or os.getpid(), **more}) + "\n"
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, line.encode())
    os.close(fd)

STOP, SIZE = 1, 32


class Blocks:
    """Cuts texts behind whole sentences."""

    def split(self, words):
        start, blocks = 0, []
        while start < len(words):
            block = words[start : start + SIZE]
            end = max((at + 1 for at, word in enumerate(block) if word == STOP), default=0)
            if not end and not blocks[-1:] == [[]]:
                say("role", role="dataloader worker 1")
                say("settled")
                blocks.append([])
            blocks += [block[:end]] if end else []
            start += end or 1
        return blocks

    def __call__(self, texts):
        blocks = []
        for text in texts:
            blocks += self.split(text["words"])
        return torch.tensor([len(block) for block in blocks])


def main():
    say("root")
    say("role", role="main")
    weights = {f"layer {number}": {"bias": [0.5 * number, 0.25 * number]} for number in range(900)}
    sentences = [7] * 9 + [STOP]
    texts = [{"words": sentences * 5} for _ in range(20)]
    texts[6] = {"words": sentences + [7] * 30000000 + sentences}
    for blocks in DataLoader(texts, batch_size=2, num_workers=2, collate_fn=Blocks()):
        print(len(weights), blocks.sum())


if __name__ == "__main__":
    main()
