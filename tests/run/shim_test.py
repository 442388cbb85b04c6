"""Under `vmart run --way shim`, a library stands in the place of the driver's. shim_test.py VMART PROGRAM"""

import os
import pathlib
import shutil
import sys
import tempfile
import textwrap
import unittest

from run_test import PLACES, PROGRAM, VMART, WAYS, Running, places, result_of, run


def becoming(user):
    return "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"


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

    def test_is_in_no_folder_that_another_user_can_change(self):
        """Programs search it for libraries long after the folder may have been cleaned up."""
        show = ("run", "--way", "shim", "--", "sh", "-c", "echo $LD_LIBRARY_PATH")
        with tempfile.TemporaryDirectory(prefix="vmart-run-") as theirs:
            refused = run(VMART, *show, HOME=theirs, XDG_CACHE_HOME=None, XDG_RUNTIME_DIR=None)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn(f"{theirs}/.cache/vmart", refused.stderr)
            self.assertIn("XDG_CACHE_HOME", refused.stderr)
            # Nor one that the working directory names.
            beside = run(VMART, *show, HOME=theirs, XDG_CACHE_HOME=":", XDG_RUNTIME_DIR=None)
            self.assertEqual(beside.returncode, 1, beside.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_cannot_be_made_by_another_user_once_it_is_gone(self):
        victim, attacker = 64123, 64124
        with tempfile.TemporaryDirectory(prefix="vmart-run-", dir="/var/lib") as home:
            os.chmod(home, 0o755)
            os.mkdir(f"{home}/own", 0o755)
            os.chown(f"{home}/own", victim, victim)
            if run(*becoming(victim), "test", "-x", VMART).returncode != 0:
                self.skipTest(f"other users cannot enter {VMART.parent}")
            shown = run(*becoming(victim), VMART, "run", "--way", "shim", "--", "sh", "-c", "echo $LD_LIBRARY_PATH",
                        HOME=f"{home}/own", XDG_CACHE_HOME=None, XDG_RUNTIME_DIR=None)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            folder = shown.stdout.split(":")[0]
            self.assertTrue(folder.startswith(f"{home}/own/.cache/vmart/shim-"), folder)
            shutil.rmtree(f"{home}/own/.cache")  # What a cleaner does.
            again = run(*becoming(attacker), "mkdir", "-p", folder)
            self.assertNotEqual(again.returncode, 0)
            self.assertFalse(os.path.exists(folder))

    def test_says_that_there_is_no_driver(self):
        under = run(VMART, "run", "--way", "shim", "--", "true", LD_LIBRARY_PATH=None)
        if under.returncode != 0:  # This machine has none.
            self.assertIn("no NVIDIA driver was found", under.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
