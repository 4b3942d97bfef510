"""A producer that has closed the end of the pipe it does not use, so that it learns when its consumer is gone."""

import multiprocessing


def produce(numbers):
    numbers._reader.close()
    for number in range(5):
        numbers.put(number)  # PUT


def main():
    numbers = multiprocessing.SimpleQueue()
    child = multiprocessing.Process(target=produce, args=(numbers,))
    child.start()
    print(sum(numbers.get() for _ in range(5)))
    child.join()


if __name__ == "__main__":
    main()
