"""What a crash inside vmart says, and ends beside threads that work, on simulated GPUs. crash_test.py VMART PROGRAM"""

import ctypes
import os
import pathlib
import signal
import sys
import unittest

from run_test import PROGRAM, Running, VMART, run


class Crashes(unittest.TestCase):
    @unittest.skipUnless(os.uname().machine == "x86_64", "writes an instruction of x86-64")
    def test_of_vmart_say_what_to_report(self):
        with Running("linked", "copies") as running:
            running.control("migrate", "run", "gpu1")
            self.break_function(running.pid, "vmart_copy_begin")
            self.assertEqual(running.wait(), -signal.SIGILL)
            self.assertRegex(running.errors(), r"^vmart run: SIGILL in \(libvmart\.so\S*\+0x[0-9a-f]+\)\. "
                                               r".*please report this line.*\n$")

    def test_that_are_signals_of_others_are_not_reported(self):
        with Running("linked", "stream") as running:
            running.control("migrate", "run", "gpu1")
            threads = [thread.name for thread in pathlib.Path(f"/proc/{running.pid}/task").iterdir()
                       if (thread / "comm").read_text().startswith("vmart")]
            self.assertTrue(threads)
            self.crash(running, int(threads[0]))
            self.assertEqual(running.errors(), "")

    def test_of_the_program_are_its_own(self):
        script = pathlib.Path(__file__).parent / "allocating.py"
        with Running("", "", command=[sys.executable, "-B", str(script), "CDLL"]) as running:  # Waits for a line.
            self.assertTrue(running.allocations())
            self.crash(running, running.pid)
            self.assertEqual(running.errors(), "")

    def break_function(self, pid, name):
        """Its first instruction becomes ud2."""
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        path, begin = next((line.split()[-1], int(line.split("-")[0], 16)) for line in maps
                           if "/libvmart.so" in line)
        library = ctypes.CDLL(path)
        own = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        here = next(int(line.split("-")[0], 16)
                    for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
                    if line.endswith(path))
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(begin + own - here)
            memory.write(b"\x0f\x0b")

    def crash(self, running, thread):
        tgkill = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
        self.assertEqual(ctypes.CDLL(None).syscall(tgkill, running.pid, thread, signal.SIGSEGV), 0)
        self.assertEqual(running.wait(), -signal.SIGSEGV)


class ThreadsThatStillWorkAtTheEnd(unittest.TestCase):
    def test_do_not_return_from_calls_when_the_runtime_is_gone(self):
        self.assertIn("\na call outlived the runtime", run(PROGRAM, "linked", "launching").stdout)
        for work in ("launching", "daemons"):
            under = run(VMART, "run", "--", PROGRAM, "linked", work)
            self.assertEqual((under.returncode, under.stderr), (0, ""))
            self.assertIn("no call outlived the runtime", under.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
