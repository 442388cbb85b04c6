#!/usr/bin/env python3
"""What docs/tutorial/lab_python.md tells its reader to type works as it stands there, prints what the page shows, and takes
less than 15 minutes: it writes a policy of Python and compares it with `auto` on three traces. Argument: the source folder."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import vmart.lab

SOURCE = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "tests/docs"))
import pages  # noqa: E402

PAGE = (SOURCE / "docs/tutorial/lab_python.md").read_text(encoding="utf-8")
LIMIT_S = 15 * 60
ROWS = [12, 3]  # Of the page's tables.
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Page(unittest.TestCase):
    def test_does_what_it_says(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        folder = pathlib.Path(owner.name)
        (folder / "vmart-env/bin").mkdir(parents=True)
        (folder / "vmart-env/bin/activate").touch()  # The package is there already.
        printed, ran, rows, begin = "", 0, [], time.monotonic()
        for mark, language, block in pages.blocks(PAGE):
            if mark.startswith("file: "):
                (folder / mark.removeprefix("file: ")).write_text(block, encoding="utf-8")
            elif language == "sh":
                printed, ran = self.run_in(folder, block), ran + 1
            else:
                pages.require_shown(block, printed)
                self.require_numbers(block, printed)
                rows.append(self.rows_with_what_it_claims(printed))
        took_s = time.monotonic() - begin
        print(f"{ran} commands in {took_s:.1f} s")
        self.assertEqual(ran, 4)
        self.assertEqual([count for count in rows if count > 0], ROWS)
        self.assertLess(took_s, LIMIT_S)

    def run_in(self, folder, block):
        (folder / "bin").mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / "bin/python3").symlink_to(sys.executable)
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-ec", block], cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=LIMIT_S)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""), block)
        return done.stdout

    def require_numbers(self, shown, printed):
        """Those of the page, within 1 %."""
        lines = iter(printed.splitlines())
        for line in filter(None, map(str.strip, shown.splitlines())):
            if line == "...":
                continue
            told = next(each for each in lines if pages.masked(each) == pages.masked(line))
            for number, now in zip(NUMBER.findall(line), NUMBER.findall(told), strict=True):
                self.assertAlmostEqual(float(number), float(now), delta=0.01 * float(number), msg=f"{line}\n{told}")

    def rows_with_what_it_claims(self, printed):
        """How many rows its table has. Of the first, the text below it: where the policy wins and loses."""
        rows = [re.split(r"\s{2,}", line) for line in printed.splitlines()]
        ratios = {(row[0], row[1]): float(row[4]) for row in rows if len(row) == 7 and row[4] != "ratio"}
        if len(ratios) == ROWS[0]:
            self.assertGreater(ratios["zipf-drift", "Follow"], ratios["zipf-drift", "static"])
            self.assertLess(ratios["pipeline", "Follow, 30 uses"], 1)
        return len(ratios)

    def test_the_policy_of_the_other_page_is_the_same_in_cpp(self):
        guide = (SOURCE / "docs/guide/policies.md").read_text(encoding="utf-8")
        files = dict(re.findall(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", guide + PAGE, re.MULTILINE | re.DOTALL))
        line = next(block for _, block in re.findall(r"^```(sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "g++" in block)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("follow.cc", "follow.py"):
                pathlib.Path(folder, name).write_text(files[name], encoding="utf-8")
            self.run_in(pathlib.Path(folder), line)
            trace = vmart.lab.generate("zipf-drift", seed=7, gpus=4, length_s=10, objects=400)
            reports = [vmart.lab.replay(trace, policy=policy, hbm_share=0.5).report
                       for policy in (f"{folder}/follow.py", f"{folder}/libfollow.so:uses=3")]
            self.assertGreater(reports[0]["moves"], 0)
            self.assertEqual({**reports[0], "inputs": 0}, {**reports[1], "inputs": 0})

    def test_it_compares_with_auto_on_three_traces(self):
        block = next(block for mark, _, block in pages.blocks(PAGE) if mark == "file: compare.py")
        self.assertEqual(block.count("vmart.lab.generate("), 3)
        self.assertIn('"auto": "auto"', block)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
