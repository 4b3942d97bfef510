import json
import os
import subprocess
import sys

import pyarrow
import pyarrow.flight as flight


def say(event, **kw):
    fd = os.open(os.environ.get("CORPUS_TRUTH", os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps({"event": event, "pid": os.getpid(), **kw}) + "\n").encode())
    os.close(fd)


class Doubles(flight.FlightServerBase):
    def do_exchange(self, context, descriptor, reader, writer):
        say("culprit")
        table = reader.read_all()  # CULPRIT
        writer.begin(table.schema)
        writer.write_table(table)


def serve():
    say("role", role="subprocess job.py")
    server = Doubles("grpc://127.0.0.1:0")
    print(server.port, flush=True)
    server.serve()


def main():
    say("root")
    say("role", role="main")
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    client = flight.connect(f"grpc://127.0.0.1:{int(server.stdout.readline())}")
    batch = pyarrow.record_batch([list(range(1000))], names=["x"])
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"double"))
    writer.begin(batch.schema)
    for _ in range(3):
        writer.write_batch(batch)
        say("culprit")
        say("settled")
        print(reader.read_chunk().data.num_rows)  # CULPRIT
    writer.done_writing()
    server.terminate()


if sys.argv[1:]:
    serve()
else:
    main()
