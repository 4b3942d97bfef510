"""One thread waits for an event that nobody else has, another for one in a variable."""

import threading


def stay():
    threading.Event().wait()


def wait(event):
    event.wait()


def main():
    threading.Thread(target=wait, args=(threading.Event(),), name="waits", daemon=True).start()
    print("stands", flush=True)
    stay()


if __name__ == "__main__":
    main()
