#!/usr/bin/env python3
"""Goal: the site has every page once, docs/index.md names every tutorial, guide and page of reference and results, and
links between docs/ and the pages beside the code lead there in both places. Method: the lists are compared with the
files; the hook of MkDocs (docs/site/links.py) rewrites pages that are made up. docs/build_site.sh shows the rest.
"""

import importlib.util
import pathlib
import posixpath
import re
import sys
import types
import unittest
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import documents  # noqa: E402
from tree import Tree  # noqa: E402

SPEC = importlib.util.spec_from_file_location("site_links", ROOT / "docs/site/links.py")
links = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(links)


def pages_of_the_site(tree):
    return sorted(links.in_site(path) for path in tree.paths(endings=(".md",))
                  if path.startswith("docs/") and not path.startswith("docs/site/")
                  or path.startswith(links.BESIDE_CODE) and path.endswith("/README.md"))


class Lists(unittest.TestCase):
    def setUp(self):
        self.tree = Tree.of_directory(str(ROOT))

    def test_the_navigation_has_each_page_once(self):
        named = Counter(re.findall(r"^ +- (\S+\.md)$", (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8"),
                                   re.MULTILINE))
        self.assertEqual([page for page, times in named.items() if times > 1], [])
        self.assertEqual(sorted(named), pages_of_the_site(self.tree))

    def test_the_index_names_all_pages_for_users(self):
        linked = {posixpath.normpath(target.split("#")[0])
                  for target in documents.LINK.findall(self.tree.files["docs/index.md"])}
        wanted = [page for page in pages_of_the_site(self.tree)
                  if page.startswith(("tutorial/", "guide/", "reference/", "internals/"))]
        self.assertEqual([page for page in wanted if page not in linked], [])


class Rewriting(unittest.TestCase):
    SITE = {"internals/threads.md", "images/a.svg", "runtime/migrate/README.md", "runtime/migrate/gates/README.md"}

    def rewritten(self, page, markdown):
        files = types.SimpleNamespace(get_file_from_path=lambda path: path if path in self.SITE else None)
        page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri=page))
        return links.on_page_markdown(markdown, page=page, files=files)

    def test_a_page_of_docs_leads_to_one_beside_the_code(self):
        self.assertEqual(self.rewritten("internals/threads.md", "[how](../../runtime/migrate/README.md#the-stop)"),
                         "[how](../runtime/migrate/README.md#the-stop)")

    def test_a_page_beside_the_code_leads_to_docs_and_to_its_neighbours(self):
        self.assertEqual(self.rewritten("runtime/migrate/README.md", "[t](../../docs/internals/threads.md) [g](gates/README.md)"),
                         "[t](../../internals/threads.md) [g](gates/README.md)")
        self.assertEqual(self.rewritten("runtime/migrate/gates/README.md", "![a](../../../docs/images/a.svg)"),
                         "![a](../../../images/a.svg)")

    def test_a_file_that_the_site_does_not_have_becomes_its_path(self):
        self.assertEqual(self.rewritten("internals/threads.md", "[the lock](../../runtime/base/mutex.hpp)"),
                         "the lock (`runtime/base/mutex.hpp`)")
        self.assertEqual(self.rewritten("runtime/migrate/README.md", "[`gates/gate.hpp`](gates/gate.hpp)"), "`gates/gate.hpp`")

    def test_a_dead_link_to_a_page_stays_for_mkdocs_to_refuse(self):
        self.assertEqual(self.rewritten("internals/threads.md", "[a](gone.md) [b](https://example.org/b.md)"),
                         "[a](gone.md) [b](https://example.org/b.md)")


if __name__ == "__main__":
    unittest.main()
