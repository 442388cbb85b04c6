#!/usr/bin/env python3
"""The extension and the library under valgrind: no access to memory that is not theirs, and nothing
lost for good, in what memory_test.py, moves_test.py, policy_test.py, leaks_test.py and lab_calls_test.py do.

Without numpy_test.py: valgrind's own handling of SIGSEGV does not carry CPU faults. Errors whose stacks
have no frame of vmart are those of Python or NumPy and do not count.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

FOLDER = pathlib.Path(__file__).parent
OURS = ("libvmart.", "_core.", "_lab.")
# A plain new of each object, and a machine small enough for valgrind to search all its memory.
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "VMART_SIM_BYTES": "256MiB"}


def errors_in(log):
    """What each error of ours is, with its innermost frames."""
    for error in xml.parse(log).iter("error"):
        frames = error.findall("stack/frame")
        if not any(name in pathlib.Path(frame.findtext("obj", "")).name for frame in frames for name in OURS):
            continue
        what = error.findtext("xwhat/text") or error.findtext("what") or error.findtext("kind")
        named = [frame.findtext("fn") or frame.findtext("obj") or "?" for frame in frames]
        yield f"{what}: " + " < ".join(named[:8])


@unittest.skipUnless(shutil.which("valgrind"), "needs valgrind")
class UnderValgrind(unittest.TestCase):
    def check(self, test):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log.xml")
            command = [
                "valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=40",
                "--child-silent-after-fork=yes", "--xml=yes", f"--xml-file={log}",
                sys.executable, "-B", str(FOLDER / test),
            ]  # fmt: skip
            run = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr[-3000:])
            self.assertEqual(list(errors_in(log)), [])

    def test_memory(self):
        self.check("memory_test.py")

    def test_moves(self):
        self.check("moves_test.py")

    def test_policies(self):
        self.check("policy_test.py")

    def test_the_lab(self):
        self.check("lab_calls_test.py")

    def test_what_is_given_up(self):
        self.check("leaks_test.py")


if __name__ == "__main__":
    if not shutil.which("valgrind"):
        print("SKIPPED: this needs valgrind")
        sys.exit(77)
    unittest.main()
