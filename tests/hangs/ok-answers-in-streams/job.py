import json
import os


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


import multiprocessing as mp
import time


def judge(questions, answers):
    say("role", role="process judge")
    while True:
        who = questions.get()
        for part in range(4):
            if who == "late":
                time.sleep(2.5)
            answers[who].put(part)


def player(who, questions, mine):
    say("role", role=f"process player {who}")
    while True:
        questions.put(who)
        for _ in range(4):
            mine.get()
            if who == "late":
                say("progress")
        if who == "early":
            return


def main():
    say("root")
    say("role", role="main")
    questions, answers = mp.Queue(), {"early": mp.Queue(), "late": mp.Queue()}
    mp.Process(target=judge, args=(questions, answers), daemon=True).start()
    early, late = (mp.Process(target=player, args=(who, questions, answers[who]), daemon=True) for who in answers)
    early.start()
    early.join()
    late.start()
    say("settled")
    late.join()


if __name__ == "__main__":
    main()
