#!/usr/bin/env python3
"""Opens the page of made-up results in a headless Chromium: every picture is drawn, for each policy that
can be chosen, and nothing complains. A long test: exits with 77, which ctest shows as skipped, without
VMART_LONG=1, Chromium, pandas or plotly."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import made_folder

SKIPPED = 77
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Chooses each policy in turn, counts what is drawn, and leaves it in the page's title.
DRIVER = """<script>addEventListener("load", () => {
  const drawn = [];
  for (const scenario of document.getElementById("scenario").options) {
    scenario.selected = true;
    document.getElementById("scenario").dispatchEvent(new Event("change"));
    for (const option of document.getElementById("policy").options) {
      option.selected = true;
      document.getElementById("policy").dispatchEvent(new Event("change"));
      drawn.push([...document.querySelectorAll(".figure:not([hidden]) .main-svg:first-child")].length);
    }
  }
  const buttons = [...document.querySelectorAll(".modebar-btn")].map((each) => each.dataset.title);
  document.title = `drawn ${drawn.join(" ")}; ${[...new Set(buttons)].sort().join(", ")};`;
});</script></body>"""


def opened(page, profile, *options):
    """What Chromium makes of a page: the document afterwards, and what was logged."""
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
         "--enable-logging=stderr", "--virtual-time-budget=20000", *options, "--dump-dom", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=240)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


class Browser(unittest.TestCase):
    def setUp(self):
        owner = tempfile.TemporaryDirectory()
        self.addCleanup(owner.cleanup)
        self.top = pathlib.Path(owner.name)

    def test_all_is_drawn_in_light_and_dark_and_nothing_complains(self):
        from vmart.lab.report import write_report

        folder = self.top / "made"
        made_folder.write_folder(folder, traces=("drift", "phases"), seeds=(1, 2), windows=500)
        write_report(folder, say=lambda _: None)
        page = folder / "driven.html"
        page.write_text((folder / "report.html").read_text().replace("</body>", DRIVER))
        for number, dark in enumerate(("1", "0")):  # Blink's numbers of light and dark.
            document, complaints = opened(page, self.top / f"profile{number}",
                                          f"--blink-settings=preferredColorScheme={dark}")
            self.assertEqual(complaints, [])
            # Bars, slowdowns, time lines, links; and the heat map of all but who moves nothing.
            self.assertIn("<title>drawn 4 5 5 5 4 5 5 5; ", document)
            title = document.partition("<title>")[2].partition("</title>")[0]
            self.assertIn("Download plot", title)
            self.assertNotIn("Share", title)


if __name__ == "__main__":
    try:
        import plotly  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        sys.exit(SKIPPED)
    if not CHROMIUM or not os.environ.get("VMART_LONG"):
        print("SKIPPED: needs VMART_LONG=1 and chromium", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
