"""Under `vmart run --way shim`, a library stands in the place of the driver's. shim_test.py VMART PROGRAM"""

import pathlib
import sys
import textwrap
import unittest

from run_test import PLACES, PROGRAM, VMART, WAYS, Running, places, result_of, run


class Shim(unittest.TestCase):
    def test_moves_memory_however_programs_find_the_driver(self):
        for way in WAYS:
            with self.subTest(way=way), Running(way, "stream", "--way", "shim") as running:
                for place, shown in PLACES:
                    running.control("migrate", "run", place)
                    self.assertEqual({at for one in running.where() for at in places(one)}, {shown})
                maps = pathlib.Path(f"/proc/{running.pid}/maps").read_text()
                driver = {line.split()[-1] for line in maps.splitlines() if "libcuda" in line}
                self.assertEqual(len(driver), 1, driver)
                self.assertIn("libvmart-shim.so", maps)
                self.assertNotIn("libvmart-run.so", maps)
                self.assertEqual(running.end().splitlines()[:-1],
                                 run(PROGRAM, way).stdout.splitlines()[:-1])

    def test_is_what_children_find(self):
        shell = ("sh", "-c", '"$0" dlsym stream', PROGRAM)
        with Running("", "", "--way", "shim", command=[str(part) for part in shell]) as running:
            running.control("migrate", "run", "gpu1")
            self.assertEqual({at for one in running.where() for at in places(one)}, {"gpu(1)"})
            self.assertEqual(running.result(), result_of(run(PROGRAM, "dlsym").stdout))

    def test_is_found_by_all_children(self):
        with Running("linked", "exec", "--way", "shim") as running:
            self.assertTrue(running.socket.exists())
            self.assertEqual(running.end().splitlines()[-1], "freed: yes")
        # They inherit the variable before the library is loaded that could change it.
        under = run(VMART, "run", "--way", "shim", "--no-children", "--", "true")
        self.assertEqual(under.returncode, 1)
        self.assertIn("--way preload", under.stderr)

    def test_lets_through_what_it_does_not_know(self):
        script = (r'''
            import ctypes
            for name in ("libcuda.so.1", "libcuda.so"):
                driver = ctypes.CDLL(name)
                count = ctypes.c_int()
                assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
                print(count.value, hasattr(driver, "cuDeviceGetName"), hasattr(driver, "cuNoSuchCall"))
            ''')
        under = run(VMART, "run", "--way", "shim", "--", sys.executable, "-c", textwrap.dedent(script))
        self.assertEqual((under.stdout, under.stderr), (2 * "2 True False\n", ""))

    def test_can_be_nested(self):
        under = run(VMART, "run", "--way", "shim", "--", VMART, "run", "--way", "shim", "--", PROGRAM, "linked",
                    VMART_CONTROL="0")
        self.assertEqual((under.returncode, under.stderr), (0, ""))
        self.assertEqual(under.stdout, run(PROGRAM, "linked").stdout)

    def test_says_that_there_is_no_driver(self):
        under = run(VMART, "run", "--way", "shim", "--", "true", LD_LIBRARY_PATH=None)
        if under.returncode != 0:  # This machine has none.
            self.assertIn("no NVIDIA driver was found", under.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
