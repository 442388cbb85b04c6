"""A program of this folder in another process, whose memory moves from outside while it works."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

from moving import Client
from playing import environment

BEGIN_S, END_S, MOVE_S = 180, 60, 60
SETTLE_S = 0.7  # Steps between two moves.
POLL_S = 0.003  # The socket takes 500 requests a second.


class MovableProgram:
    """Prints a line of JSON when it begins and runs until end(). Under `vmart run` if `vmart` is given."""

    def __init__(self, vmart, program):
        self.folder = tempfile.TemporaryDirectory(prefix="vmart-")
        self.client, self.since = None, 0  # The last event that was seen.
        self.log = pathlib.Path(self.folder.name) / "log.json"
        self.errors = open(pathlib.Path(self.folder.name) / "errors", "w+")
        command = [str(vmart), "run", "--"] if vmart else []
        command += [*program, "--log", str(self.log)]
        self.process = subprocess.Popen(
            command, env=environment({"XDG_RUNTIME_DIR": self.folder.name}), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            said = self.said()
            self.__exit__()
            raise RuntimeError(f"the program did not begin: {said}")
        begun = json.loads(line)
        self.weights, self.bytes = begun["weights"], begun["bytes"]
        if vmart:
            self.client = Client(self.socket())
            time.sleep(SETTLE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.client is not None:
            self.client.close()
        self.process.kill()
        self.process.communicate()
        self.errors.close()
        self.folder.cleanup()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-800:]

    def process_id(self):
        return self.process.pid

    def socket(self):
        path = pathlib.Path(self.folder.name) / "vmart" / f"{self.process.pid}.sock"
        if not path.exists():
            raise RuntimeError(f"no control socket: {os.listdir(self.folder.name)}: {self.said()}")
        return path

    def move_to(self, place, what=None):
        """Moves all weights, or what is selected. Returns when that began and ended, after which it lets
        steps pass."""
        begin = time.monotonic()
        answer = self.client.ask("migrate", what=what or self.weights, to=place)
        if not isinstance(answer, dict):
            raise RuntimeError(f"the move was refused: {answer}")
        while time.monotonic() < begin + MOVE_S:
            events = self.client.ask("events", since=self.since, most=512)
            self.since = events["next"]
            for event in events["events"]:
                if event.get("operation") != answer["operation"]:
                    continue
                if event["kind"] == "operation_failed":
                    raise RuntimeError(f"the move failed: {event['text']}")
                if event["kind"] == "operation_done":
                    end = time.monotonic()
                    time.sleep(SETTLE_S)
                    return begin, end
            time.sleep(POLL_S)
        raise RuntimeError(f"the move did not end within {MOVE_S} s")

    def end(self, line="end"):
        """Tells it to end. Returns its log."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.wait(END_S) != 0:
            raise RuntimeError(f"exit {self.process.returncode}: {self.said()}")
        return json.loads(self.log.read_text())


class ServedModel(MovableProgram):
    """What gpt_loops.py serves. Its log has its steps, each with its launch and its end."""

    def __init__(self, vmart, loops, ahead, as_graph, *more):
        super().__init__(vmart, [sys.executable, loops, "serve", "--ahead", str(ahead),
                                 *(["--graph"] if as_graph else []), *more])


class Places(threading.Thread):
    """Looks where the memory of a program is, again and again, until end() or until that ends. Of several
    programs with a socket in a folder, the first."""

    def __init__(self, folder, every_s):
        super().__init__(daemon=True)
        self.folder, self.every_s = pathlib.Path(folder), every_s
        self.looks, self.ending = [], threading.Event()
        self.looked = threading.Condition()
        self.start()

    def run(self):
        client = None
        try:
            while not self.ending.wait(self.every_s):
                if client is None:
                    client = next((Client(path) for path in self.folder.glob("vmart/*.sock")), None)
                if client is not None:
                    self.look(client)
        except OSError:
            pass  # It has ended.
        finally:
            if client is not None:
                client.close()

    def look(self, client):
        asked = time.monotonic()
        places = client.ask("status")["places"]
        with self.looked:
            self.looks.append((asked, {re.sub(r"[()]", "", place["at"]): place["used_bytes"] for place in places}))
            self.looked.notify_all()

    def await_look(self, after_s):
        """Returns once it has looked after that time, or the program has ended."""
        with self.looked:
            self.looked.wait_for(lambda: (self.looks and self.looks[-1][0] >= after_s) or not self.is_alive(),
                                 timeout=MOVE_S)

    def end(self):
        """Returns when it looked, and the bytes at each place then."""
        self.ending.set()
        self.join()
        return self.looks


def latencies_of(steps, begin, end):
    """How long each step took from its launch to its end, of those that were under way then."""
    found = [done - launched for launched, done in steps if done >= begin and launched <= end]
    return found or [done - launched for launched, done in steps]


def gap_of(steps, begin, end):
    """The longest time between the ends of two steps, of those about that time."""
    ends = [done for _, done in steps]
    gaps = [later - earlier for earlier, later in zip(ends, ends[1:])
            if later >= begin and earlier <= end]
    return max(gaps)
