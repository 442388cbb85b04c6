"""Whether the table of entry points has each call of cuda.h that enqueues. entry_points_test.py FOLDER-OF-CUDA.H"""

import pathlib
import re
import sys
import unittest

INTERPOSE = pathlib.Path(__file__).resolve().parents[2] / "runtime" / "interpose"
# They enqueue nothing that uses memory of vmart. Those that begin with cuMem, cuStream or cuLaunch are in
# unknown_calls.cpp.
OTHERS = {"cuGraphicsMapResources", "cuGraphicsUnmapResources", "cuSignalExternalSemaphoresAsync",
          "cuWaitExternalSemaphoresAsync"}
VARIANT = re.compile(r"_pt[sd][sz]$")


def base_of(symbol):
    return re.sub(r"_v\d+$", "", VARIANT.sub("", symbol))


def rows():
    """The symbols that have hooks."""
    table = (INTERPOSE / "entry_points.hpp").read_text()
    hooked = table[:table.index("define VMART_RUN_PLAIN_CALLS")]
    found = set(re.findall(r"ROW\((cu\w+),", hooked))
    for stem, _ in re.findall(r"ROW\((cu\w+)##suffix, (\w+)", hooked):
        found |= {stem, stem + "_ptsz"}
    return found


def harmless():
    text = (INTERPOSE / "unknown_calls.cpp").read_text()
    begin, whole = (re.search(rf"string_view {name}\[\] = {{(.*?)}};", text, re.DOTALL).group(1)
                    for name in ("harmless_begin", "harmless"))
    return tuple(re.findall(r'"(\w+)"', begin)), OTHERS | set(re.findall(r'"(\w+)"', whole))


class EntryPoints(unittest.TestCase):
    folder = pathlib.Path(sys.argv[1])

    def test_have_each_call_that_enqueues(self):
        header = (self.folder / "cuda.h").read_text(errors="replace")
        declared = re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*)\)\s*;", header)
        self.assertGreater(len(declared), 400)
        begin, names = harmless()
        hooked = {base_of(symbol) for symbol in rows()}
        enqueue = {base_of(name) for name, arguments in declared
                   if re.search(r"\bCUstream\s+\w", arguments) or name.startswith("cuLaunch")}
        self.assertEqual({name for name in enqueue - hooked - names if not name.startswith(begin)}, set())
        self.assertEqual(hooked & names, set())

    def test_have_the_variants_for_streams_of_threads(self):
        types = (self.folder / "cudaTypedefs.h").read_text(errors="replace")
        variants = {base: suffix for base, suffix in re.findall(r"\bPFN_(cu\w+?)_v\d+(_pt[sd][sz])\b", types)}
        self.assertGreater(len(variants), 50)
        known = rows()
        for symbol in known:
            if VARIANT.search(symbol) or base_of(symbol) not in variants:
                continue
            self.assertIn(symbol + variants[base_of(symbol)], known)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
