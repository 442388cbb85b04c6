#!/usr/bin/env python3
"""Checks what a reviewer should not have to: see README.md beside it.

tidy.py ROOT            every rule; 1 if one is broken
tidy.py --format ROOT   clang-format over all C++; 77 if there is no clang-format
tidy.py --self-test     each rule against a planted offence
"""

import os
import shutil
import subprocess
import sys
import unittest

import building
import documents
import includes
import ratchets
import sizes
from tree import CPP, Tree

CHECKS = includes.CHECKS + sizes.CHECKS + documents.CHECKS + building.CHECKS + ratchets.CHECKS
CLANG_FORMAT = "clang-format-16"  # Versions differ in what they do, so one is named.
EXIT_SKIPPED = 77


def offences_in(tree):
    return sorted({str(offence) for check in CHECKS for offence in check(tree)})


def check_rules(root):
    tree = Tree.of_directory(root)
    offences = offences_in(tree)
    print("\n".join(offences))
    print(f"{len(CHECKS)} rules, {len(tree.files)} files, {len(offences)} offences")
    return 1 if offences else 0


def check_format(root):
    if shutil.which(CLANG_FORMAT) is None:
        print(f"{CLANG_FORMAT} is not installed")
        return 1 if os.environ.get("CI") == "true" else EXIT_SKIPPED
    paths = Tree.of_directory(root).paths(endings=CPP)
    return subprocess.run([CLANG_FORMAT, "--dry-run", "-Werror", *paths], cwd=root,
                          check=False).returncode


def main(arguments):
    if arguments == ["--self-test"]:
        suite = unittest.defaultTestLoader.loadTestsFromName("offences_test")
        return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1
    if len(arguments) == 2 and arguments[0] == "--format":
        return check_format(arguments[1])
    if len(arguments) == 1 and not arguments[0].startswith("-"):
        return check_rules(arguments[0])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
