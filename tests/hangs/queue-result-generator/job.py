import json
import multiprocessing as mp
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


def tokenize(number, texts, results):
    say("role", role=f"process tokenizer-{number}")
    while True:

        text = texts.get()
        words = text.split()
        if len(words) > 3:
            # Long ones were to be lazy, but what is sent must be pickled.
            words = (word for word in words)
            say("culprit", thread="MainThread"), say("settled")
        results.put(words)


def main():
    say("root"), say("role", role="main")
    ctx = mp.get_context("fork")
    texts, results = [ctx.Queue() for _ in range(2)], ctx.Queue()
    tokenizers = [ctx.Process(target=tokenize, args=(n, texts[n], results), daemon=True) for n in range(2)]
    for tokenizer in tokenizers:



        tokenizer.start()
    for number, text in enumerate(("a b", "c d", "e", "a text of many words")):
        texts[number % 2].put(text)
    for _ in range(4):

        words = results.get()
        print(list(words))
    for tokenizer in tokenizers:
        tokenizer.terminate()




if __name__ == "__main__":
    main()
