"""A healthy program: each item is another one."""

from ready import say


def step(number):
    return sum(number * each for each in range(20000))


if __name__ == "__main__":
    say(ready=True)
    number = 0
    while True:
        step(number)
        number += 1
