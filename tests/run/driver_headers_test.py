"""Whether somebody has classified each call of NVIDIA's headers. driver_headers_test.py FOLDER-OF-CUDA.H...
With --fetched ROOT, the headers are those that .ci/setup.sh has unpacked there, and none are SKIPPED."""

import pathlib
import re
import sys
import unittest

import driver_calls

FETCHED = pathlib.Path(sys.argv[2]) if sys.argv[1:2] == ["--fetched"] else None
FOLDERS = sorted(path.parent for path in FETCHED.rglob("cuda.h")) if FETCHED else list(map(pathlib.Path, sys.argv[1:]))
PINNED = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "driver-headers.txt"


class DriverHeaders(unittest.TestCase):
    def test_have_no_call_that_nobody_has_classified(self):
        listed = driver_calls.listed()
        for folder in FOLDERS:
            version = driver_calls.version_of(folder)
            with self.subTest(version=version):
                self.assertLessEqual(version, max(listed), f"driver_calls.txt ends before {folder}")
                declared = driver_calls.symbols_in(folder)
                self.assertGreater(len(declared), 590)
                known = {symbol for added, symbols in listed.items() if added <= version for symbol in symbols}
                later = {symbol for added, symbols in listed.items() if added > version for symbol in symbols}
                self.assertEqual(declared - known - later, set(), "add them to driver_calls.txt")
                if version in listed:
                    self.assertEqual(declared & later, set(), "they are older than driver_calls.txt says")
                whole = (folder / "cudaGL.h").exists()  # A toolkit may come without the headers of graphics.
                if version in listed and whole:
                    self.assertEqual({symbol for symbol in listed[version] if symbol not in declared}, set())


def missing():
    """The pinned versions that were not fetched."""
    there = {path.name for path in FETCHED.glob("*") if path.is_dir()} if FETCHED else set()
    return set(re.findall(r"==([\d.]+)", PINNED.read_text())) - there if FETCHED else set()


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    if missing() and result.wasSuccessful():
        print(f"SKIPPED: headers of {', '.join(sorted(missing()))}, which .ci/setup.sh fetches where there is a network")
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
