import sys,os,time
sys.path.insert(0,'/tmp/tuiperf/base')
from tests.benchmarks.job import Job
from tests.benchmarks import terminal
n=int(sys.argv[1]); root=sys.argv[2]; out=sys.argv[3]
with Job(n,hung='--hung' in sys.argv) as job:
    time.sleep(3)
    env={**os.environ,'TERM':'xterm-256color','PYTHONPATH':root,'PROF_OUT':out}
    terminal.ROOT=root
    with terminal.Screen(['/tmp/dev/venv/bin/python','/tmp/tuiperf/prof.py',str(job.root)],env) as s:
        s.run(45)
        if not os.path.exists(out): print(terminal.last_words(s.output))
