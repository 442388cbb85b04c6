#!/usr/bin/env python3
"""Goal: who cites or archives vmart names what is here. Method: CITATION.cff and .zenodo.json are compared with CMakeLists.txt,
LICENSE and the benchmark's manifest. `cffconvert --validate` checks the schema of CITATION.cff; it needs the network.
"""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIRED = {"authors", "cff-version", "message", "title"}  # By version 1.2.0 of the schema.
KNOWN = REQUIRED | {"abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license", "license-url",
                    "preferred-citation", "references", "repository", "repository-artifact", "repository-code", "type", "url",
                    "version"}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def top_level(text):
    """The keys of the file, with the values that stand on their lines."""
    return {key: value.strip().strip('"') for key, value in re.findall(r"^([a-z-]+):(.*)$", text, re.MULTILINE)}


class Citation(unittest.TestCase):
    def setUp(self):
        self.citation = top_level(read("CITATION.cff"))
        self.archive = json.loads(read(".zenodo.json"))

    def test_has_what_the_schema_wants_and_nothing_else(self):
        self.assertEqual(REQUIRED - set(self.citation), set())
        self.assertEqual(set(self.citation) - KNOWN, set())
        self.assertEqual((self.citation["cff-version"], self.citation["type"]), ("1.2.0", "software"))

    def test_both_files_name_the_version_the_title_and_the_licence(self):
        version = re.search(r"project\(vmart VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
        self.assertIn("Apache License", read("LICENSE"))
        for found in (self.citation, self.archive):
            self.assertEqual((found["version"], found["license"]), (version, "Apache-2.0"))
        self.assertEqual(self.citation["title"], self.archive["title"])

    def test_the_changelog_begins_with_the_version(self):
        version = re.search(r"project\(vmart VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
        first = re.search(r"^## (.*)$", read("docs/CHANGELOG.md"), re.MULTILINE)[1]
        self.assertEqual(first.split()[0], version)

    def test_the_benchmark_is_named_as_it_names_itself(self):
        name = json.loads(read("bench/study/vmart_bench_2026_12.json"))["benchmark"]
        for file in ("CITATION.cff", ".zenodo.json", "docs/results/benchmark.md"):
            self.assertIn(name, read(file))


if __name__ == "__main__":
    unittest.main()
