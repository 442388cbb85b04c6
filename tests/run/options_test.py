"""Options and variables of `vmart run`, on simulated GPUs. options_test.py VMART PROGRAM"""

import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from run_test import PROGRAM, VMART, Running, environment, result_of, run


def variables_of(*options, **changes):
    """What a program under `vmart run` finds in its environment."""
    shown = run(VMART, "run", *options, "--", "env", **changes)
    return dict(line.split("=", 1) for line in shown.stdout.splitlines() if line.startswith("VMART_"))


def on_terminal(*command, **changes):
    """What the program writes to standard error, if that is a terminal."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as shown:
        with open(theirs, "wb", buffering=0) as errors:
            subprocess.run([str(part) for part in (VMART, "run", *command)], env=environment(**changes), stderr=errors,
                           stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=120, check=True)
        text = b""
        try:
            while part := shown.read(4096):
                text += part
        except OSError:  # Linux: nobody has the other side any more.
            pass
    return text.decode().replace("\r\n", "\n")


class Options(unittest.TestCase):
    def test_that_are_unknown_are_refused(self):
        for command in (["--overcomit", "--", "true"], ["--overcomit", "true"], ["--what", "4", "--", "true"],
                        ["--sites", "--pool", "--", "true"]):
            refused = run(VMART, "run", *command)
            self.assertEqual(refused.returncode, 2, command)
            self.assertIn("unknown option --", refused.stderr)

    def test_that_name_no_policy_are_refused(self):
        for text in ("autoo", "auto:nothing=1"):
            refused = run(VMART, "run", "--policy", text, "--", "true")
            self.assertEqual((refused.returncode, refused.stdout), (1, ""), text)
            self.assertRegex(refused.stderr, "^vmart: .*(did you mean auto|nothing)")

    def test_that_are_left_out_leave_the_variables_alone(self):
        given = {"VMART_RUN_VMM": "1", "VMART_RUN_CHILDREN": "0", "VMART_RUN_POOLS": "1",
                 "VMART_RUN_EXCLUDE": "libmine"}
        self.assertLessEqual(given.items(), variables_of(**given).items())
        set_again = variables_of("--no-vmm", "--children", "--exclude", "", **given)
        self.assertEqual([set_again[name] for name in given], ["0", "1", "1", ""])

    def test_that_make_room_do_so_as_a_variable_too(self):
        self.assertNotIn("VMART_POLICY", variables_of(VMART_RUN_OVERCOMMIT="0"))
        found = variables_of(VMART_RUN_OVERCOMMIT="on")
        self.assertEqual(found["VMART_POLICY"], "stay_put")
        self.assertNotIn("VMART_PRESSURE_LIMIT_MS", found)

    def test_of_an_inner_run_count(self):
        folders = os.environ["LD_LIBRARY_PATH"]
        for outer, inner, library in (("shim", "preload", "libvmart-run.so"), ("preload", "shim", "libvmart-shim.so"),
                                      ("preload", "preload", "libvmart-run.so")):
            command = ("run", "--way", outer, "--", VMART, "run", "--way", inner, "--")
            lists = dict(line.split("=", 1) for line in run(VMART, *command, "env").stdout.splitlines())
            self.assertEqual(lists.get("LD_PRELOAD", "").count("libvmart-run.so"), int(inner == "preload"))
            self.assertEqual(lists["LD_LIBRARY_PATH"].endswith(folders), True)
            self.assertEqual(lists["LD_LIBRARY_PATH"].count("/shim-"), int(inner == "shim"))
            with Running("", "", "--way", outer, command=[str(part) for part in (
                    VMART, "run", "--way", inner, "--", PROGRAM, "resolver", "stream")]) as running:
                running.control("migrate", "run", "gpu1")
                self.assertIn(library, pathlib.Path(f"/proc/{running.pid}/maps").read_text())
                self.assertEqual((running.result(), running.errors()), (result_of(run(PROGRAM).stdout), ""))

    def test_a_path_that_the_loader_would_divide_is_refused(self):
        source = VMART.parent.parent.parent
        for name in ("my env", "a:b"):
            with tempfile.TemporaryDirectory(prefix="vmart-run-") as folder:
                tools = pathlib.Path(folder) / name / "runtime" / "tools"
                tools.mkdir(parents=True)
                shutil.copy(VMART, tools)
                for library in ("libvmart-run.so", "libvmart-shim.so"):
                    os.link(source / "runtime" / library, tools.parent / library)
                refused = run(tools / VMART.name, "run", "--", "true")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("--way shim", refused.stderr)


def elf_file(*parts, flags=None):
    """An ELF file of no machine, with program headers of the types `parts`."""
    dynamic = struct.pack("<qQqQ", 0x6FFFFFFB, flags, 0, 0) if flags is not None else struct.pack("<qQ", 0, 0)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 2, 0xFFFF, 1, 0, 64, 0, 0, 64, 56, len(parts), 0, 0, 0)
    at = 64 + 56 * len(parts)
    return head + b"".join(struct.pack("<IIQQQQQQ", part, 4, at, 0, 0, len(dynamic), 0, 8) for part in parts) + dynamic


class Programs(unittest.TestCase):
    def is_called_static(self, *command):
        return "linked statically" in run(VMART, "run", "--", *command).stderr

    def test_that_are_static_are_named(self):
        load, dynamic, interpreter, pie = 1, 2, 3, 0x08000000
        with tempfile.TemporaryDirectory(prefix="vmart-run-") as folder:
            file = pathlib.Path(folder) / "program"
            for content, static in ((elf_file(load), True), (elf_file(load, dynamic, flags=pie | 1), True),
                                    (elf_file(interpreter, load, dynamic, flags=pie), False),
                                    (elf_file(load, dynamic), False), (elf_file(load, dynamic, flags=1), False)):
                file.write_bytes(content)  # Nothing may execute it.
                self.assertEqual(self.is_called_static(file), static, content)

    def test_may_be_the_loader(self):
        maps = pathlib.Path("/proc/self/maps").read_text()
        loader = re.search(r"\S*/ld-\S+", maps)[0]
        self.assertFalse(self.is_called_static(loader, "--version"))


class Variables(unittest.TestCase):
    def test_under_which_nothing_could_move_are_named_at_the_end_on_a_terminal(self):
        never = "vmart run: the program never used a GPU\n"
        starts = "import subprocess; subprocess.run(['true'])"
        self.assertEqual(on_terminal("--", "true"), never)
        self.assertEqual(on_terminal("--", sys.executable, "-c", "pass"), never)
        self.assertEqual(on_terminal("--", sys.executable, "-c", starts), "", "what it has started may have used one")
        self.assertEqual(on_terminal("--", "true", VMART_RUN="off"), "")
        self.assertEqual(on_terminal("--", PROGRAM, "linked"), "")
        left = on_terminal("--min", "1GiB", "--", PROGRAM, "linked")
        self.assertRegex(left, r"\Avmart run: all memory of the program was left to the driver: .*--min .*\n\Z")
        self.assertEqual(run(VMART, "run", "--", "true").stderr, "")

    def test_switch_a_program_off_by_any_word(self):
        for word in ("off", "OFF", "0", "no", "False"):
            under = run(VMART, "run", "--", PROGRAM, "dlsym", VMART_RUN=word, VMART_DEVICES="nonsense")
            self.assertEqual((under.returncode, under.stderr), (0, ""), word)

    def test_that_are_no_words_are_named(self):
        for name in ("VMART_RUN", "VMART_RUN_VMM", "VMART_RUN_POOLS", "VMART_RUN_OVERCOMMIT", "VMART_RUN_CHILDREN"):
            under = run(VMART, "run", "--", "cat", "/dev/null", **{name: "perhaps"})
            self.assertEqual((under.returncode, under.stderr.count(f'vmart run: {name} is "perhaps"')), (0, 1), name)

    def test_that_name_another_driver_leave_the_program_alone(self):
        for other in ("sim:h200x2", "nonsense"):
            under = run(VMART, "run", "--", PROGRAM, "linked", VMART_DRIVER=other)
            self.assertEqual((under.returncode, under.stdout), (0, run(PROGRAM, "linked").stdout))
            self.assertRegex(under.stderr, r"^vmart run: disabled in this process, .*VMART_DRIVER.*\n$")
        self.assertEqual(run(VMART, "run", "--", PROGRAM, "linked", VMART_DRIVER="cuda").stderr, "")

    def test_that_leave_a_gpu_out_concern_that_gpu_only(self):
        with Running("linked", "gpus", VMART_DEVICES="1") as running:
            status = json.loads(running.control("status", "--json"))
            self.assertEqual([place["at"] for place in status["places"]], ["gpu(1)", "host(0)"])
            running.end()
            self.assertEqual(running.errors(), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
