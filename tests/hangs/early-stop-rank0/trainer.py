import torch
import torch.distributed as dist


class EarlyStopping:
    def __init__(self, patience=3):
        self.best, self.bad, self.patience = float("inf"), 0, patience

    def should_stop(self, loss):
        if loss < self.best - 1e-4:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class Trainer:
    def __init__(self, model, rank, world):
        self.model, self.rank, self.world = model, rank, world
        self.stopper = EarlyStopping()
        self.history = []
        for p in model.parameters():
            dist.broadcast(p.data, src=0)

    def reduce_grads(self):
        flat = torch.cat([p.grad.reshape(-1) for p in self.model.parameters()])
        dist.all_reduce(flat)
        flat /= self.world
        at = 0
        for p in self.model.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()

    def epoch(self, data, before_reduce):
        total = 0.0
        for x, y in data:
            loss = (self.model(x) - y).pow(2).mean()
            loss.backward()
            before_reduce(len(self.history))
            self.reduce_grads()
            with torch.no_grad():
                for p in self.model.parameters():
                    p -= 0.05 * p.grad
                    p.grad = None
            total += float(loss)
        return total / len(data)

    def fit(self, epochs, loader, validate, before_reduce, on_stop):
        for n in range(epochs):
            self.epoch(loader(n), before_reduce)
            loss = validate(n)
            self.history.append(loss)
            if self.stopper.should_stop(loss):
                on_stop()
                break
        return self.summarize()

    def summarize(self):
        runs = [None] * self.world
        dist.all_gather_object(runs, self.history)  # CULPRIT
        return [min(r) for r in runs]
