"""What is written is built: no source and no test that CMake does not know."""

import posixpath
import re

from tree import Offence

LISTS = "CMakeLists.txt"
# Programs and libraries of their own, and folders whose types are not in the library.
APART = ("runtime/interpose/", "runtime/lab/", "runtime/python/", "runtime/tools/")
TYPE = re.compile(r"(?:struct|class|union|enum class) (?:VMART_\w+(?:\([^)]*\))? )?(\w+)(?: final)?(?: : [^;]*)? \{")


def every_source_is_listed(tree):
    """By its path from the folder of some CMakeLists.txt above it, with or without the ending."""
    for path in tree.paths("runtime/", "tests/", "examples/", "bench/", endings=(".cpp", ".c")):
        if not any(_names(tree, lists, path) for lists in _lists_above(path)):
            yield Offence(path, 1, f"no {LISTS} names it, so nobody builds it")


def tests_are_named_as_tests(tree):
    """A file that holds a TEST ends in _test.cpp, so that a reader finds it."""
    for path in tree.paths("tests/", endings=(".cpp",)):
        if path.endswith("_test.cpp"):
            continue
        for number, line in tree.code_lines(path):
            if re.match(r"(TYPED_)?TEST(_F|_P)?\(", line):
                yield Offence(path, number, "a test outside *_test.cpp")
                break


def a_type_has_one_definition(tree):
    """In the library all types are of one namespace. Of two with a name, the linker takes the members of
    either, and the program ends in the destructor of the other."""
    found = {}
    for path in tree.paths("runtime/", endings=(".cpp", ".hpp")):
        if path.startswith(APART):
            continue
        unnamed = False
        for number, line in tree.code_lines(path):
            if line.startswith("namespace {"):
                unnamed = True
            elif line.startswith("}"):
                unnamed = unnamed and not re.match(r"\}\s*$", line)
            elif not unnamed and (match := TYPE.match(line)):
                first = found.setdefault(match.group(1), path)
                if posixpath.splitext(first)[0] != posixpath.splitext(path)[0]:
                    yield Offence(path, number, f"{first} defines {match.group(1)}, too")


def _lists_above(path):
    folder = posixpath.dirname(path)
    while True:
        yield posixpath.join(folder, LISTS)
        if not folder:
            return
        folder = posixpath.dirname(folder)


def _names(tree, lists, path):
    if lists not in tree.files:
        return False
    text = re.sub(r"#[^\n]*", "", tree.files[lists])
    relative = posixpath.relpath(path, posixpath.dirname(lists) or ".")
    return any(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", text)
               for name in (relative, relative.removesuffix(".cpp")))


CHECKS = [every_source_is_listed, tests_are_named_as_tests, a_type_has_one_definition]
