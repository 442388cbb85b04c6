#!/usr/bin/env python3
"""Importers give the same bytes as ever: golden_test.py VMART_LAB. `golden.json` has the digests of the traces of
the samples beside it and of files in bench/traces. Those of the first formats are of the C++ converters that the
importers replaced. With --print it prints the digests as they are now, for a format that was added or changed.

Random choices depend on the last bit of exp and log: another C library may give other digests."""

import hashlib
import json
import pathlib
import sys
import tempfile
import unittest

PRINT = "--print" in sys.argv and not sys.argv.remove("--print")

from converting import HERE, SAMPLES, TRACES, Converting, vmart_lab  # noqa: E402  It takes an argument away.

GOLDEN = HERE / "golden.json"


def cases():
    for text, digest in json.loads(GOLDEN.read_text()).items():
        form, file, seed, *values = text.split()
        yield text, form, (SAMPLES if (SAMPLES / file).exists() else TRACES) / file, seed, values, digest


def digest_of(form, path, seed, values, output):
    """Of the trace; why there is none, if there is none."""
    words = [word for value in values for word in ("--param", value)]
    done = vmart_lab("convert", form, path, output, "--seed", seed, *words)
    return done.stderr if done.returncode else hashlib.sha256(output.read_bytes()).hexdigest()


class Golden(Converting):
    def test_traces_are_the_same_bytes(self):
        for text, form, path, seed, values, digest in cases():
            with self.subTest(text):
                self.assertEqual(digest_of(form, path, seed, values, self.output), digest)

    def test_every_sample_is_converted(self):
        converted = {path.name for _, _, path, *_ in cases()}
        forgotten = {path.name for path in SAMPLES.iterdir()} - converted
        self.assertEqual({name for name in forgotten if not name.endswith("_tensors.csv")}, set())


if __name__ == "__main__":
    if not PRINT:
        unittest.main()
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.jsonl"
        print(json.dumps({text: digest_of(form, path, seed, values, output)
                          for text, form, path, seed, values, _ in cases()}, indent=0))
