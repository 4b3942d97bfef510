import multiprocessing as mp

from sqlalchemy import create_engine, text
from sqlalchemy.pool import QueuePool
import json
import os


def say(event, pid=0, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": pid or os.getpid(), **kw}) + "\n").encode())
    os.close(fd)



class Audit:
    def __init__(self, engine):
        self.engine = engine

    def note(self, words):
        with self.engine.connect() as connection:  # CULPRIT
            connection.execute(text("insert into audit values (:words)"), {"words": words})
            connection.commit()


def work(path, shop, results):
    say("role", role=f"process {mp.current_process().name}")
    engine = create_engine(f"sqlite:///{path}", poolclass=QueuePool, pool_size=2, max_overflow=0, pool_timeout=86400)
    audit = Audit(engine)
    with engine.connect() as connection:
        for (price,) in connection.execute(text("select price from orders where shop = :shop"), {"shop": shop}):
            with engine.connect() as other:
                mean = other.execute(text("select avg(price) from orders")).scalar()
                if price > mean + 45:
                    say("culprit", thread="MainThread")
                    say("settled")
                    audit.note(f"{price} is above the mean")
    results.put(shop)


def main():
    say("root")
    say("role", role="main")
    path = os.path.abspath("shop.db")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("create table orders (shop integer, price integer)"))
        connection.execute(text("create table audit (words text)"))
        rows = [{"shop": number % 2, "price": 60 + (number % 40) * (number % 2)} for number in range(400)]
        connection.execute(text("insert into orders values (:shop, :price)"), rows + [{"shop": 1, "price": 400}])
    engine.dispose()
    ctx = mp.get_context("spawn")
    results = ctx.Queue()
    workers = [ctx.Process(target=work, args=(path, shop, results), name=f"shop{shop}") for shop in range(2)]
    for worker in workers:
        worker.start()
    print(sorted(results.get() for _ in workers))
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
