"""Parts of vmart of different versions name both, and say what to do: `vmart run` and libvmart-run, libvmart-run and libvmart,
the command line and the program that it asks. versions_test.py VMART PROGRAM RUN_LIBRARY LIBRARY_NAME
Method: a libvmart made for the test, a version set by hand, and a program that answers what others would."""

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from run_test import PROGRAM, VMART, run

RUN_LIBRARY = pathlib.Path(sys.argv[3]).resolve()
LIBRARY_NAME = sys.argv[4]
OWN = run(VMART, "--version").stdout.split()[1]
DISABLED = "vmart run: disabled in this process, so the memory of this program does not move: "


class Interposer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, library, **changes):
        bare = run(PROGRAM, "linked", "stream")
        under = run(PROGRAM, "linked", "stream", LD_PRELOAD=str(library), **changes)
        self.assertEqual((under.returncode, under.stdout), (bare.returncode, bare.stdout))
        return under.stderr

    def beside(self, source):
        """libvmart-run beside a libvmart of this source."""
        shutil.copy(RUN_LIBRARY, self.folder)
        path = self.folder / LIBRARY_NAME
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
        return self.folder / RUN_LIBRARY.name, path

    def test_and_library_of_one_version_take_part(self):
        self.assertEqual(self.run_with(RUN_LIBRARY), "")
        self.assertEqual(self.run_with(RUN_LIBRARY, VMART_RUN_VERSION=OWN), "")

    def test_and_another_library_name_both(self):
        run_library, library = self.beside('const char* vmart_version(void) { return "0.1.9"; }\n'
                                           "const void* vmart_run_table(unsigned long version) { return 0; }\n")
        self.assertEqual(self.run_with(run_library), f"{DISABLED}{library} is of vmart 0.1.9, and libvmart-run of {OWN}; "
                                                     "install both from one package\n")

    def test_and_another_build_of_the_library_say_so(self):
        run_library, library = self.beside(f'const char* vmart_version(void) {{ return "{OWN}"; }}\n'
                                           "const void* vmart_run_table(unsigned long version) { return 0; }\n")
        self.assertEqual(self.run_with(run_library), f"{DISABLED}{library} is of another build of vmart {OWN} than libvmart-run; "
                                                     "install both from one package\n")

    def test_and_a_library_that_says_nothing_name_it(self):
        run_library, _ = self.beside("int nothing;\n")
        self.assertIn(f"{LIBRARY_NAME} is of vmart (unknown), and libvmart-run of {OWN}", self.run_with(run_library))

    def test_and_the_command_name_both(self):
        self.assertEqual(self.run_with(RUN_LIBRARY, VMART_RUN_VERSION="9.9.9"),
                         f"{DISABLED}`vmart run` is of vmart 9.9.9, and libvmart-run of {OWN}; use both from one package\n")


class Command(unittest.TestCase):
    """Asks a program of another version."""

    @contextlib.contextmanager
    def program(self, version):
        """Knows `status` alone. Yields the path of its socket."""
        status = {"pid": 12, "description": "a machine", **({"version": version} if version else {})}
        refusal = {"error": {"kind": "invalid_argument", "message": 'vma::control: invalid_argument: no command "policy"'}}
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
            path = f"{folder}/control.sock"
            listening.bind(path)
            listening.listen()
            listening.settimeout(30)  # The command may end without asking.

            def serve():
                with listening.accept()[0] as peer, peer.makefile("rw") as lines:
                    for line in lines:
                        known = json.loads(line)["command"] == "status"
                        lines.write(json.dumps({"ok": status} if known else refusal) + "\n")
                        lines.flush()

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                yield path
            finally:
                thread.join()

    def ask(self, version, *command):
        with self.program(version) as path:
            done = run(VMART, *command, "--socket", path)
        return done.returncode, done.stdout + done.stderr

    def test_names_both_when_it_is_refused(self):
        for version, said in (("9.9.9", "9.9.9"), (None, "0.1")):
            self.assertEqual(self.ask(version, "policy"), (1, (
                f'vmart: no command "policy" (the program has vmart {said}, this command is of {OWN}; use the command of the '
                "program's version, or start the program with this one)\n")))

    def test_names_both_in_the_status(self):
        status, said = self.ask("9.9.9", "status")
        self.assertEqual(status, 0)
        self.assertIn(f"version    the program has vmart 9.9.9, this command is of {OWN}; use", said)

    def test_says_nothing_of_its_own_version(self):
        self.assertEqual(self.ask(OWN, "policy"), (1, 'vmart: no command "policy"\n'))
        self.assertNotIn("version", self.ask(OWN, "status")[1])

    def test_prints_no_control_characters_of_the_other(self):
        self.assertIn("the program has vmart 9?[31m,", self.ask("9\x1b[31m", "policy")[1])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
