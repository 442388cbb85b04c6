"""What `vmart run` preloads gets on with other libraries. preload_test.py VMART PROGRAM"""

import sys
import unittest

from run_test import PROGRAM, VMART, run

HERE = PROGRAM.parent


class Libraries(unittest.TestCase):
    def test_that_are_opened_with_deepbind_call_the_hooks(self):
        bare = run(PROGRAM, HERE / "run_deep_plugin.so")
        self.assertEqual((bare.returncode, set(bare.stdout.split()[-1])), (0, {"0"}), bare.stdout)
        for way in ("preload", "shim"):
            under = run(VMART, "run", "--way", way, "--", PROGRAM, HERE / "run_deep_plugin.so", VMART_CONTROL="0")
            self.assertEqual((under.returncode, under.stderr, under.stdout), (0, "", bare.stdout), way)

    def test_that_are_preloaded_may_find_free_late(self):
        for way in ("linked", "dlsym", "resolver"):
            program = (HERE / "run_program", way, "stream")
            preload = f"LD_PRELOAD={VMART.parents[1] / 'libvmart-run.so'}:{HERE / 'run_lazy_malloc.so'}"
            under = run(VMART, "run", "--", "env", preload, *program, VMART_CONTROL="0")
            self.assertEqual((under.returncode, under.stderr, under.stdout), (0, "", run(*program).stdout), way)

    def test_look_other_functions_up_first(self):
        look_up = "import ctypes; print(ctypes.CDLL(None).abs(-3))"
        for settings in ({}, {"VMART_RUN": "off"}):
            under = run(VMART, "run", "--", sys.executable, "-c", look_up, **settings)
            self.assertEqual((under.returncode, under.stderr, under.stdout), (0, "", "3\n"), settings)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
