#!/usr/bin/env python3
"""What `vmart-lab convert` and `vmart.lab.import_` say and refuse: command_test.py VMART_LAB."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

from converting import PATH, PROGRAM, SAMPLES, Converting, vmart_lab

from vmart.lab import import_
from vmart.lab.importers import FORMATS

ONE = '{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}\n'
NEEDS = "this command needs Python 3.10 or newer in PATH"
MADE = ("vmart-lab convert mooncake seed=1 closed=1 gpus=4 hints=0 keep_s=7 prefill_tokens_s=0 requests=0 "
        "token_bytes=131072 token_us=30000 weight_bytes=0")


class Command(Converting):
    def test_input_may_be_compressed_or_standard_input(self):
        path = self.file("a.jsonl", ONE)
        events = self.events("mooncake", path)
        packed = self.folder / "a.jsonl.gz"
        packed.write_bytes(gzip.compress(ONE.encode()))
        self.assertEqual(self.events("mooncake", packed), events)
        for given in (path, packed):
            with given.open("rb") as file:
                done = vmart_lab("convert", "mooncake", "-", self.output, stdin=file)
            self.assertIn("2 access, 1 alloc, 1 free", done.stdout)
        packed.write_bytes(packed.read_bytes()[:-12])
        self.assertIn("a.jsonl.gz: Compressed file ended", self.refused("mooncake", packed))

    def test_the_summary(self):
        done = vmart_lab("convert", "mooncake", self.file("a.jsonl", "x\n" + ONE), self.output)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("at most 0.062 GiB are allocated at once; 0 objects remain at the end\n", done.stdout)
        self.assertIn(f"1 bad lines in {self.folder}/a.jsonl; the first:\n  line 1: Expecting value", done.stdout)

    def test_both_forms_and_their_header(self):
        path, binary, lines = self.file("a.jsonl", ONE), self.folder / "b.vtrace", self.folder / "b.jsonl"
        for output in (binary, lines):
            vmart_lab("convert", "mooncake", path, output, "--param", "keep_s=7")
        vmart_lab("convert", "trace", binary, self.output)
        self.assertEqual(self.output.read_bytes(), lines.read_bytes())
        self.assertEqual(json.loads(lines.read_text().splitlines()[0]), {
            "vmart_trace": 2, "name": "mooncake a.jsonl", "origin": "kvcache-ai/Mooncake (FAST 2025): a.jsonl",
            "licence": "Apache-2.0", "made": MADE})

    def test_wrong_arguments(self):
        path = self.file("a.jsonl", ONE)
        self.assertEqual(self.refused("mooncake", self.folder / "none"),
                         f"vmart-lab: {self.folder}/none: No such file or directory\n")
        known = ", ".join(["trace", *sorted([*FORMATS, "recording"])])
        self.assertEqual(self.refused("cake", path), f'vmart-lab: "cake" is not a format; known are {known}\n')
        with self.assertRaisesRegex(ValueError, f'^"cake" is not a format; known are {known}$'):
            import_("cake", path, self.output, program=PROGRAM)
        said = self.refused("mooncake", path, "keep=1")
        self.assertIn('vmart-lab: "keep" is not a parameter; the parameters are\n', said)
        self.assertIn("  keep_s: 300, from 0 to 1000000: how long", said)
        for value in ("", "1.5", "nan", "-1", "1_0", "1e7", " 1", "0x10"):
            self.assertIn(f'keep_s: "{value}" is not a whole number from 0 to 1000000',
                          self.refused("mooncake", path, f"keep_s={value}"))
        self.assertIn('a.jsonl: line 1: is not "TIMESTAMP', self.refused("azure", path))
        self.assertIn("is both the input and the output", vmart_lab("convert", "mooncake", path, path).stderr)
        self.assertEqual(path.read_text(), ONE)
        done = vmart_lab("convert", "mooncake", path, self.folder / "a.csv")
        self.assertIn("a.csv: must end in .jsonl or .vtrace", done.stderr)

    def test_too_many_bad_lines_leave_nothing(self):
        path = self.file("a.jsonl", ONE + "x\ny\n")
        said = self.refused("mooncake", path, options=["--bad-lines", "1"])
        self.assertRegex(said, "a.jsonl: line 3: Expecting .*; 2 bad lines, at most 1; the first is line 2: Expecting")
        self.assertIn("empty.jsonl: contains nothing that becomes an event",
                      self.refused("mooncake", self.file("empty.jsonl", "\n")))
        self.output.write_text("before")
        vmart_lab("convert", "mooncake", path, self.output, "--bad-lines", "1")
        self.assertEqual(self.output.read_text(), "before")

    def test_without_python(self):
        path = self.file("a.jsonl", ONE)
        done = vmart_lab("convert", "mooncake", path, self.output, PATH="/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"No such file or directory; {NEEDS}", done.stderr)
        shown = vmart_lab("convert", "--help", PATH="/nowhere")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("FORMAT: trace, recording, and those that are listed here where there is Python 3.10",
                      " ".join(shown.stdout.split()))
        self.assertEqual(vmart_lab("trace", "--help", PATH="/nowhere").returncode, 0)

    def test_a_package_that_is_not_ours(self):
        (self.folder / "vmart").mkdir()
        path = self.file("a.jsonl", ONE)
        for error, told in (("RuntimeError", f"RuntimeError: broken\nvmart-lab: {path}: python3 ended with exit status 1"),
                            ("ImportError", f"vmart-lab: python3: broken; {NEEDS}")):
            self.file("vmart/__init__.py", f"raise {error}('broken')\n")
            done = vmart_lab("convert", "mooncake", path, self.output, PYTHONPATH=str(self.folder))
            self.assertEqual(done.returncode, 1)
            self.assertIn(told, done.stderr)
            self.assertFalse(self.output.exists())

    def test_files_in_the_current_folder_are_not_run(self):
        self.file("json.py", "raise SystemExit('of the current folder')\n")
        done = vmart_lab("convert", "mooncake", self.file("a.jsonl", ONE), self.output, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_standard_error_is_the_users(self):
        self.file("sitecustomize.py", "import sys; print('7: said before', file=sys.stderr)\n")
        path = self.file("a.jsonl", ONE)
        done = vmart_lab("convert", "mooncake", path, self.output, PYTHONPATH=str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (0, "7: said before\n"))
        self.assertNotIn("bad lines", done.stdout)
        done = vmart_lab("convert", "azure", path, self.output, PYTHONPATH=str(self.folder))
        self.assertRegex(done.stderr, f'^7: said before\nvmart-lab: {path}: line 1: is not "TIMESTAMP')

    def test_help_lists_all(self):
        shown = " ".join(vmart_lab("convert", "--help").stdout.split())
        for form in FORMATS.values():
            self.assertIn(f" {form.name}: {form.meaning} ", shown)
            for parameter in form.module().PARAMETERS:
                self.assertIn(f" {parameter.name}: ", shown)
        self.assertIn("keep_s: 300, from 0 to 1000000: how long an unused block is kept; 0: forever", shown)


class OtherPython(Converting):
    """Programs that are called python3."""

    def run_with(self, script, output=None):
        python = self.file("python3", f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        self.path = self.file("a.jsonl", ONE)
        return vmart_lab("convert", "mooncake", self.path, output or self.output, PATH=f"{self.folder}:{PATH}")

    def test_an_old_one_is_refused(self):
        done = self.run_with(f"""shift; code=$1; shift
exec {sys.executable} -c "import sys; sys.version_info = (3, 8, 0)
$code" "$@" """)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"vmart-lab: python3 is 3.8; {NEEDS}", done.stderr)

    def test_one_that_is_killed(self):
        done = self.run_with("""printf '{"vmart_trace":'; kill -9 $$""")
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"vmart-lab: {self.path}: python3 was ended by signal 9 (Killed)\n"))

    def test_one_that_prints_no_trace(self):
        done = self.run_with("echo hello")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"vmart-lab: {self.path}: the importer's output: line 1: ", done.stderr)

    def test_signals_reach_it(self):
        old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
        try:
            done = self.run_with("grep SigBlk /proc/self/status >&2")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
        self.assertRegex(done.stderr, r"SigBlk:\s+0+\n")

    def test_one_that_ignores_signals_ends_with_the_program(self):
        begin = time.monotonic()
        done = self.run_with("""trap '' TERM; echo '{"vmart_trace":1}'
yes '{"event":"mark","time_ns":0}' | head -c 2000000; exec sleep 60""", self.folder / "a.csv")
        self.assertIn("a.csv: must end in .jsonl or .vtrace", done.stderr)
        self.assertLess(time.monotonic() - begin, 30)


class Files(Converting):
    def files_of(self, name):
        return subprocess.run([sys.executable, "-m", "vmart.lab", "files", "mooncake", name], text=True,
                              capture_output=True, check=False)

    def test_names_may_have_newlines(self):
        self.assertEqual(json.loads(self.files_of("a\nb.jsonl").stdout), ["a\nb.jsonl"])

    def test_names_that_are_not_utf_8_are_refused(self):
        done = self.files_of(b"a\xff.jsonl")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("the name is not UTF-8", done.stderr)


class Import(Converting):
    def test_names_are_no_options(self):
        with self.assertRaisesRegex(ValueError, "^--help: No such file"):
            import_("mooncake", "--help", self.output, program=PROGRAM)
        with self.assertRaisesRegex(ValueError, "No such file"):
            import_("mooncake", os.fsdecode(b"\xff"), self.output, program=PROGRAM)

    def test_no_program(self):
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            with self.assertRaisesRegex(ValueError, "there is no vmart-lab"):
                import_("mooncake", "a", self.output)

    def test_the_summary_of_the_trace(self):
        path = SAMPLES / "mooncake-a.jsonl"
        told = import_("mooncake", path, self.output, program=PROGRAM, closed=0, keep_s=2).summary
        self.assertEqual(told["counts"]["alloc"], 3)
        self.assertEqual((told["events"], told["bad_lines"], told["gpus"]), (12, 0, []))
        digest = hashlib.sha256(self.output.read_bytes()).hexdigest()
        self.convert("mooncake", path, "closed=0", "keep_s=2")
        self.assertEqual(hashlib.sha256(self.output.read_bytes()).hexdigest(), digest)

    def test_seeds_and_bad_lines(self):
        path = SAMPLES / "azure-b.csv"
        told = import_("azure", str(path), str(self.output), seed=3, program=PROGRAM).summary
        self.assertEqual(told["first_bad_lines"][0],
                         {"line": 3, "reason": "is earlier than the request above it"})
        self.assertIn("seed=3", self.output.read_text().splitlines()[0])
        with self.assertRaisesRegex(ValueError, "azure-b.csv: line 3: is earlier"):
            import_("azure", path, self.output, bad_lines_max=0, program=PROGRAM)
        with self.assertRaisesRegex(ValueError, '^"speed" is not a parameter'):
            import_("azure", path, self.output, program=PROGRAM, speed=1)


if __name__ == "__main__":
    unittest.main()
