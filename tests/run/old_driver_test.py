"""Drivers that lack calls, under `vmart run`: the simulated one without some of its names.
old_driver_test.py VMART PROGRAM"""

import contextlib
import os
import pathlib
import re
import sys
import tempfile
import unittest

from run_test import PROGRAM, VMART, run

RUNTIME = pathlib.Path(__file__).resolve().parents[2] / "runtime"


def calls_of_hooks():
    """Those that the hooks make themselves and cannot do without."""
    table = (RUNTIME / "entry_points" / "entry_points.hpp").read_text()
    rows = re.search(r"define VMART_RUN_PLAIN_CALLS\(ROW\)(.*?)\n\n", table, re.DOTALL).group(1)
    return re.findall(r"ROW\((\w+),", rows)


def driver():
    for folder in os.environ["LD_LIBRARY_PATH"].split(":"):
        library = pathlib.Path(folder) / "libcuda.so.1"
        if library.exists():
            return library
    raise FileNotFoundError("libcuda.so.1")


@contextlib.contextmanager
def driver_without(call):
    """The folder of one whose name of that call is another."""
    library = driver()
    with tempfile.TemporaryDirectory(prefix="vmart-run-") as folder:
        for needed in ("libsimcuda-ioctl.so", "nvidiactl"):
            os.symlink(library.parent / needed, pathlib.Path(folder) / needed)
        name = call.encode() + b"\0"
        (pathlib.Path(folder) / "libcuda.so.1").write_bytes(
            library.read_bytes().replace(b"\0" + name, b"\0" + name[:-2] + b"~\0"))
        yield folder


class OldDrivers(unittest.TestCase):
    def test_are_refused_by_doctor_and_others_expected(self):
        asked = (VMART, "doctor", "--driver", "cuda", "--copy-mib", "0")
        self.assertRegex(run(*asked).stdout, r"\nsupport {9}expected: no recorded run has a Simulated GPU ")
        with driver_without("cuGetProcAddress_v2") as folder:
            refused = run(*asked, LD_LIBRARY_PATH=folder)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stdout, "^support {9}refused: .*driver 550 or newer is needed")

    def test_run_the_program_alone(self):
        expected, tried = run(PROGRAM, "dlsym", "stream").stdout, 0
        for call in calls_of_hooks():
            with self.subTest(call=call), driver_without(call) as folder:
                bare = run(PROGRAM, "dlsym", "stream", LD_LIBRARY_PATH=folder)
                if bare.returncode != 0:
                    continue  # The program itself needs it.
                tried += 1
                under = run(VMART, "run", "--", PROGRAM, "dlsym", "stream", LD_LIBRARY_PATH=folder)
                self.assertEqual((under.returncode, under.stdout), (0, expected))
                self.assertRegex(under.stderr, rf"^vmart run: disabled in this process, .*lacks {call};.*\n$")
        self.assertGreaterEqual(tried, 10)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
