"""A pool and an executor."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor


def square(number):
    return number * number


def fail(number):
    raise ValueError(number)


def main(method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        print(pool.map(square, range(50)), list(pool.imap_unordered(square, [7])))
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        print(list(executor.map(square, range(50))), type(executor.submit(fail, 3).exception()).__name__)
        print(type(executor.submit(lambda: 1).exception()).__name__)


if __name__ == "__main__":
    main(sys.argv[1])
