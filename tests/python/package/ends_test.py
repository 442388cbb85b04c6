#!/usr/bin/env python3
"""How programs end: in the middle of moves and calls, with hooks, policies and views that live on, by
`shutdown`. Arguments: how many exits with daemon threads, and how many at a time. On GPUs:
VMART_DRIVER=cuda python3 ends_test.py 200 8 DaemonThreads"""

import concurrent.futures
import os
import subprocess
import sys
import unittest

COUNTS = [int(sys.argv.pop(1)) for _ in range(2) if len(sys.argv) > 1 and sys.argv[1].isdecimal()]
EXITS, TOGETHER = [*COUNTS, 10, 1][0], [*COUNTS[1:], 1][0]


def run_script(script, *arguments):
    environment = {"VMART_DRIVER": "sim:h200x2", **os.environ}
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True,
                          timeout=120, env=environment)  # fmt: skip


def without_slow_policies(text):
    """On a busy machine, a policy may take half a second."""
    return "".join(line for line in text.splitlines(True) if "has not answered within" not in line)


# Each daemon thread repeats one call; the program ends once each has done so a few times.
DAEMONS = """
import threading, vmart
hooked, plain = vmart.alloc(8 << 20, "gpu0"), vmart.alloc(8 << 20, "gpu0")
stream = vmart.make_stream("gpu0")
vmart.attach(stream)
live = vmart.alloc(4 << 20, "gpu0", chunk_bytes=2 << 20)
guard = vmart.on_move(hooked, before=lambda event: event.offset, after=lambda event: event.moved)
pool = vmart.make_pool("gpu0")
other = vmart.gpu(1) if vmart.gpu(1) in [place.at for place in vmart.stats().places] else "host0"
out, elsewhere = bytearray(4096), [other, "gpu0"]

def moved(memory, **how):
    for place in elsewhere:
        vmart.migrate(memory, place, **how)

def refused():
    try:
        vmart.migrate(5, "gpu1")
    except vmart.UnknownPointer:
        pass

def block():
    pool.deallocate(pool.allocate(5000, stream), stream)

def pinned():
    with vmart.pin(plain):
        pass

CALLS = {
    "migrate": lambda: moved(plain),
    "hook": lambda: moved(hooked),
    "progress": lambda: moved(live, on_progress=lambda now: now.chunks_moved),
    "async": lambda: vmart.migrate_async(live, "gpu0").wait(),
    "alloc": lambda: vmart.alloc(4 << 20, "gpu0").free(),
    "drop": lambda: vmart.alloc(4 << 20, "gpu0"),
    "stats": vmart.stats,
    "where": lambda: vmart.where(plain),
    "synchronize": lambda: vmart.synchronize(stream),
    "read": lambda: plain.read_into(out),
    "write": lambda: plain.write(out),
    "pool": block,
    "pin": pinned,
    "refused": refused,
}

def repeat(name, begun):
    for number in range(1 << 62):
        try:
            CALLS[name]()
        except (vmart.Busy, vmart.Pinned, vmart.Cancelled):  # Other threads move the same.
            pass
        if number == 2:
            begun.release()

begun = threading.Semaphore(0)
for name in CALLS:
    threading.Thread(target=repeat, args=(name, begun), daemon=True).start()
for name in CALLS:
    begun.acquire()
"""


unittest.TestCase.maxDiff = None


class DaemonThreads(unittest.TestCase):
    def test_may_be_inside_any_call_when_the_interpreter_ends(self):
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            ends = list(pool.map(run_script, [DAEMONS] * EXITS))
        wrong = [(done.returncode, done.stderr[-500:]) for done in ends
                 if (done.returncode, done.stderr) != (0, "")]  # fmt: skip
        self.assertEqual(wrong, [], f"{len(wrong)} of {EXITS} ended wrongly")

    def test_come_back_to_python_until_the_last_function_of_atexit_has_run(self):
        done = run_script(
            "import atexit, threading\n"
            "ends = threading.Event()\n"
            "def stop():\n"
            "    ends.set()\n"
            "    worker.join()\n"
            "    print('joined')\n"
            "atexit.register(stop)\n"  # Before that of vmart, so it runs after it.
            "import vmart\n"
            "memory = vmart.alloc(4 << 20, 'gpu0')\n"
            "def work():\n"
            "    while not ends.is_set():\n"
            "        vmart.migrate(memory, 'host0'); vmart.migrate(memory, 'gpu0')\n"
            "worker = threading.Thread(target=work, daemon=True)\n"
            "worker.start()\n"
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "joined\n", ""))


class NothingIsKept(unittest.TestCase):
    """Python's collector sees what callbacks keep."""

    def test_of_objects_whose_methods_are_hooks_or_callbacks(self):
        done = run_script(
            "import gc, threading, weakref, vmart\n"
            "stream = vmart.make_stream('gpu0'); vmart.attach(stream)\n"
            "class Owner:\n"
            "    def __init__(self):\n"
            "        self.ended, self.move = threading.Event(), None\n"
            "        self.memory = vmart.alloc(4 << 20, 'gpu0')\n"
            "        self.guard = vmart.on_move(self.memory, before=self.told, after=self.told)\n"
            "        self.move = vmart.migrate_async(self.memory, 'gpu1', on_progress=self.told)\n"
            "        self.move.add_done_callback(self.told)\n"
            "        self.move.wait()\n"
            "    def told(self, event):\n"
            "        if event is self.move: self.ended.set()\n"
            "def made():\n"
            "    owner = Owner()\n"
            "    owner.ended.wait()\n"
            "    return weakref.ref(owner)\n"
            "owners = [made() for _ in range(10)]\n"
            "other = vmart.alloc(8 << 20, 'gpu0')\n"
            "last = vmart.migrate_async(other, 'gpu1')\n"
            "told = threading.Event()\n"
            "last.wait(); last.add_done_callback(lambda _: told.set()); told.wait()\n"
            "gc.collect()\n"
            "print(sum(owner() is not None for owner in owners),\n"
            "      sum(info.nbytes == 4 << 20 for info in vmart.allocations()))\n"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "0 0\n")

    def test_of_a_policy_that_another_one_follows(self):
        done = run_script(
            "import gc, weakref, vmart\n"
            "made = []\n"
            "class Keeps(vmart.Policy):\n"
            "    def __init__(self):\n"
            "        self.itself = self\n"
            "        made.append(weakref.ref(self))\n"
            "vmart.open_runtime(driver='sim:h200x2', policy=Keeps, tick=3600.0)\n"
            "vmart.step_scheduler(); vmart.set_policy('stay_put'); vmart.step_scheduler()\n"
            "gc.collect()\n"
            "print(len(made), sum(policy() is not None for policy in made))\n"
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "1 0\n", ""))


class Shutdown(unittest.TestCase):
    def test_is_refused_while_the_cpu_sees_memory(self):
        for make in (
            "vmart.empty(1024, 'float32', at='host0').numpy()",
            "vmart.empty(1024, 'float32', at='gpu0', cpu_access='fault').numpy()",
            "memoryview(vmart.alloc(4096, 'host0'))",
            "made_by_the_handler()",
        ):
            done = run_script(
                "import sys, vmart\n"
                "def made_by_the_handler():\n"
                "    import numpy\n"
                "    with vmart.numpy.handler(): return numpy.ones(1 << 20)\n"
                "memory = vmart.empty(1024, 'float32', at='gpu0', cpu_access='fault')\n"
                f"view = {make}\n"
                "try: vmart.shutdown()\n"
                "except vmart.Pinned as error: print('1 array or buffer' in str(error), end=' ')\n"
                "view[5] = 3; print(int(view[5]), end=' ')\n"
                "del view\n"
                "vmart.shutdown(); vmart.shutdown()\n"
                "try: memory.numpy()\n"
                "except vmart.DriverGone: print('gone')\n"
            )
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True 3 gone\n", ""), make)


class Subinterpreters(unittest.TestCase):
    def test_are_refused_and_disturb_nobody(self):
        done = run_script(
            "try: import _xxsubinterpreters as interpreters\n"
            "except ImportError: raise SystemExit(77)\n"
            "import vmart\n"
            "memory = vmart.alloc(4096, 'gpu0')\n"
            "other = interpreters.create()\n"
            "try: interpreters.run_string(other, 'import vmart; vmart.stats()')\n"
            "except interpreters.RunFailedError as error: print('main interpreter only' in str(error))\n"
            "interpreters.destroy(other)\n"
            "print(vmart.migrate(memory, 'gpu1').outcome)\n"
        )
        if done.returncode == 77:
            self.skipTest("this Python has no module for subinterpreters")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\ndone\n", ""))


class Ends(unittest.TestCase):
    """The interpreter ends while threads of the runtime are about to call Python."""

    run_script = staticmethod(run_script)

    def test_in_the_middle_of_moves_with_callbacks(self):
        done = self.run_script(
            "import vmart\n"
            "stream = vmart.make_stream('gpu0'); vmart.attach(stream)\n"
            "parts = [vmart.alloc(1 << 22, 'gpu0', chunk_bytes=1 << 21) for _ in range(40)]\n"
            "for place in ('gpu1', 'gpu0', 'gpu1'):\n"
            "    for part in parts:\n"
            "        vmart.migrate_async(part, place, on_progress=print).add_done_callback(print)\n"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_of_a_forked_child_while_a_policy_is_about_to_be_called(self):
        done = self.run_script(
            "import os, sys, vmart\n"
            "class Busy(vmart.Policy):\n"
            "    def on_tick(self, snapshot, plan): list(snapshot.chunks)\n"
            "vmart.open_runtime(driver='sim:h200x2', policy=Busy, tick=0.0005)\n"
            "for _ in range(20):\n"
            "    vmart.step_scheduler()\n"
            "    child = os.fork()\n"
            "    if child == 0: sys.exit(0)\n"
            "    assert os.waitpid(child, 0)[1] == 0\n"
        )
        self.assertEqual((done.returncode, without_slow_policies(done.stderr)), (0, ""))

    def test_with_a_policy_that_runs(self):
        done = self.run_script(
            "import vmart\n"
            "class Busy(vmart.Policy):\n"
            "    def on_tick(self, snapshot, plan): list(snapshot.chunks)\n"
            "vmart.open_runtime(driver='sim:h200x2', policy=Busy, tick=0.0005)\n"
            "memory = vmart.alloc(1 << 22, 'gpu0')\n"
            "while vmart.scheduler_stats().ticks < 50: vmart.step_scheduler()\n"
        )
        self.assertEqual((done.returncode, without_slow_policies(done.stderr)), (0, ""))

    def test_without_a_driver_the_error_says_how_to_simulate(self):
        environment = {key: value for key, value in os.environ.items() if key != "VMART_DRIVER"}
        environment["LD_LIBRARY_PATH"] = "/nonexistent"
        script = (
            "import vmart\n"
            "try: vmart.alloc(1)\n"
            "except vmart.NoDriver as error: print('sim:' in str(error))\n"
            "else: print('a driver is here')\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              timeout=120, env=environment)  # fmt: skip
        self.assertIn(done.stdout, ("True\n", "a driver is here\n"), done.stderr)

    def test_with_a_policy_that_does_not_answer(self):
        done = run_script(
            "import threading, vmart\n"
            "begun, never = threading.Event(), threading.Semaphore(0)\n"
            "class Stuck(vmart.Policy):\n"
            "    def on_tick(self, snapshot, plan):\n"
            "        begun.set()\n"
            "        never.acquire(timeout=2)\n"  # The scheduler gives up after half a second.
            "vmart.open_runtime(driver='sim:h200x2', policy=Stuck, tick=0.001)\n"
            "memory = vmart.alloc(1 << 22, 'gpu0')\n"
            "begun.wait()\n"
        )
        self.assertEqual(done.returncode, 0)
        self.assertLessEqual(len(done.stderr.splitlines()), 1, done.stderr[:2000])
        self.assertNotIn("interpreter", done.stderr)


if __name__ == "__main__":
    unittest.main()
