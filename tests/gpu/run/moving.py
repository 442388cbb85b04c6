"""Moves the memory of running programs at random, from outside, through their control sockets."""

import collections
import json
import os
import pathlib
import random
import socket
import subprocess
import threading
import time

ANSWER_S = 15.0  # A runtime that does not answer for so long counts as lost.
OPERATION_S = 60.0  # A move that takes longer counts as stuck.
BY_TOOL = 1 / 16  # How many requests go through `vmart migrate`, which costs a process each.


class Client:
    """One control socket. Raises OSError once the program has ended."""

    def __init__(self, path):
        self.path, self._buffer = path, b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(str(path))

    def ask(self, command, **members):
        """Returns the members of the answer, or a text if the request was refused."""
        self._socket.sendall(json.dumps({"command": command, **members}).encode() + b"\n")
        while b"\n" not in self._buffer:
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError("the program closed its control socket")
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer = json.loads(line)
        return answer["ok"] if "ok" in answer else str(answer["error"]["message"])

    def close(self):
        self._socket.close()


class Tally:
    """What moved, of all processes of a program. Moves just before a process ends may be missing."""

    def __init__(self):
        self.asked, self.operations, self.failed, self.stuck = 0, 0, 0, 0
        self.by_tool = 0
        self.reasons = collections.Counter()
        self.of_process = {}  # Path of the socket: (moves, bytes), as the runtime counts them.

    @property
    def moves(self):
        return sum(moves for moves, _ in self.of_process.values())

    @property
    def bytes(self):
        return sum(size for _, size in self.of_process.values())

    @property
    def processes_moved(self):
        return sum(moves > 0 for moves, _ in self.of_process.values())

    def note(self, reason):
        self.reasons[reason[:160]] += 1

    def add(self, other):
        for name in ("asked", "operations", "failed", "stuck", "by_tool"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)
        for path, counts in other.of_process.items():
            self.of_process[f"{len(self.of_process)} {path}"] = counts


class Process:
    """One process of the program: asks it for moves, one after the other, until it ends."""

    def __init__(self, path, tally, chance, vmart, hosts):
        self.client, self.tally, self.chance, self.vmart = Client(path), tally, chance, vmart
        self.path, self.since = path, 0
        self.places = self._places(hosts)

    def _places(self, hosts):
        status = self.client.ask("status")
        places = [place["at"] for place in status["places"]] if isinstance(status, dict) else []
        return [place for place in places if hosts or not place.startswith("host")]

    def request(self):
        """What to move, and where to."""
        some = self.chance.randint(1, 8)
        place = self.chance.choice(self.places)
        at = self.chance.choice(self.places).replace("(", "").replace(")", "")
        what = self.chance.choice(["all", f"largest:{some}", f"oldest:{some}", f"newest:{some}",
                                   f"at:{at}", "size:2MiB..64MiB", "one", "one"])
        return (self.one_allocation() if what == "one" else what), place

    def one_allocation(self):
        answer = self.client.ask("where", most=512)
        found = answer["allocations"] if isinstance(answer, dict) else []
        movable = [one["address"] for one in found if one.get("movable", True)]
        return self.chance.choice(movable) if movable else "all"

    def step(self):
        """Returns whether something moved or was tried."""
        what, place = self.request()
        self.tally.asked += 1
        if self.chance.random() < BY_TOOL:
            return self.move_by_tool(what, place)
        answer = self.client.ask("migrate", what=what, to=place)
        if not isinstance(answer, dict):
            self.tally.note(answer)
            return False
        self.wait_for(answer["operation"])
        return True

    def move_by_tool(self, what, place):
        self.tally.by_tool += 1
        done = subprocess.run([str(self.vmart), "migrate", what, place, "--socket", str(self.path)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=OPERATION_S)
        self.tally.operations += 1
        if done.returncode != 0:
            self.tally.failed += 1
            self.tally.note(done.stderr.strip())
        self.count()
        return done.returncode == 0

    def wait_for(self, operation):
        end = time.monotonic() + OPERATION_S
        while True:
            answer = self.client.ask("events", since=self.since, most=512)
            if not isinstance(answer, dict):
                self.tally.note(answer)
                return
            self.since = answer["next"]
            for event in answer["events"]:
                if event.get("operation") != operation:
                    continue
                if event["kind"] in ("operation_done", "operation_failed"):
                    self.finish(event)
                    return
            if time.monotonic() > end:
                self.tally.stuck += 1
                self.tally.note(f"operation {operation} did not end within {OPERATION_S} s")
                return
            time.sleep(0.005)  # The server allows 500 requests a second.

    def finish(self, event):
        self.tally.operations += 1
        if event["kind"] == "operation_failed":
            self.tally.failed += 1
            self.tally.note(event.get("text", "failed"))
        self.count()

    def count(self):
        stats = self.client.ask("stats")
        if isinstance(stats, dict):
            runtime = stats["runtime"]
            self.tally.of_process[str(self.path)] = (runtime["migrations"], runtime["bytes_moved"])


class Migrator:
    """Follows all processes that open a socket in a folder, with a thread each."""

    def __init__(self, folder, vmart, seed, hosts=True):
        self.folder, self.vmart, self.seed, self.hosts = pathlib.Path(folder), vmart, seed, hosts
        self.tally = Tally()
        self._tallies, self._threads, self._known = [], [], set()
        self._stopping = threading.Event()
        self._finder = threading.Thread(target=self._find, name="find sockets", daemon=True)
        self._finder.start()

    def _find(self):
        while not self._stopping.wait(0.01):
            for path in list(self.folder.glob("vmart/*.sock")):
                if path in self._known or "-" in path.stem:  # A name with a key is that of an export.
                    continue
                self._known.add(path)
                tally, chance = Tally(), random.Random(f"{self.seed} {len(self._known)}")
                thread = threading.Thread(target=self._follow, args=(path, tally, chance),
                                          name=path.name, daemon=True)
                self._tallies.append(tally)
                self._threads.append(thread)
                thread.start()

    def _follow(self, path, tally, chance):
        process = None
        while process is None:
            try:
                process = Process(path, tally, chance, self.vmart, self.hosts)
            except ConnectionRefusedError:  # Bound, but not yet listening; or a process that was killed.
                if self._stopping.wait(0.01) or not is_alive(path):
                    return
            except (OSError, ValueError) as error:
                return tally.note(f"no talk with a new process: {error}")
        try:
            while not self._stopping.is_set():
                if not process.step():
                    self._stopping.wait(0.02)  # Nothing to move now.
        except TimeoutError:
            tally.stuck += 1
            tally.note(f"no answer within {ANSWER_S} s")
        except subprocess.TimeoutExpired:
            tally.stuck += 1
            tally.note(f"vmart migrate did not end within {OPERATION_S} s")
        except (OSError, ValueError):
            pass  # The process has ended.
        finally:
            process.client.close()
        return None

    def finished(self):
        """How many requests were carried out so far."""
        return sum(tally.operations - tally.failed for tally in list(self._tallies))

    def stop(self):
        """Requires: the program has ended. Returns the sum of what was done."""
        self._stopping.set()
        self._finder.join()
        for thread in self._threads:
            thread.join(OPERATION_S + ANSWER_S)
        for tally in self._tallies:
            self.tally.add(tally)
        return self.tally


def is_alive(path):
    """Whether the process that a socket is named after exists."""
    try:
        os.kill(int(path.stem.partition(".")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    return True
