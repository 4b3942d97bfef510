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
        who, question = questions.get()
        answers.put((who, question % 7))


def answer_for(who, answers):
    while True:
        asked, answer = answers.get()  # CULPRIT
        if asked == who:
            return answer


def slow_player(questions, answers, asked):
    say("role", role="process slow player")
    say("culprit", thread="MainThread")
    questions.put(("slow", 17))
    asked.set()
    time.sleep(2)
    answer_for("slow", answers)


def quick_player(questions, answers, asked):
    say("role", role="process quick player")
    asked.wait()
    time.sleep(0.5)
    questions.put(("quick", 4))
    answer_for("quick", answers)


def main():
    say("root")
    say("role", role="main")
    say("waiter")
    questions, answers, asked = mp.Queue(), mp.Queue(), mp.Event()
    mp.Process(target=judge, args=(questions, answers), daemon=True).start()
    players = [
        mp.Process(target=play, args=(questions, answers, asked), daemon=True) for play in (slow_player, quick_player)
    ]
    for player in players:
        player.start()
    players[1].join()
    say("settled")
    players[0].join()


if __name__ == "__main__":
    main()
