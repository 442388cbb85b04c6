"""Numbers that may only shrink. Who makes one smaller writes the new one here; nobody aims at one."""

import re
from collections import defaultdict

from tree import CPP, Offence

THIS = "tests/tidy/ratchets.py"
SMALL_LINES = 60
STATE_MAX = 12

# What is counted, and how many there are.
LIMITS = {
    "units of less than 60 lines a file with one includer": 3,
    "comments that begin with 'Of'": 217,
    "classes with more than 12 fields of state and no line why": 0,
}

LIMIT = re.compile(r'    "(.+)": (\d+),$')
INCLUDE = re.compile(r'^#include "([^"]+)\.hpp"', re.MULTILINE)
OF_COMMENT = re.compile(r"//[/<]*\s+Of\b")
CLASS = re.compile(r"((?:^//[^\n]*\n)*)^(?:template <[^\n]*>\n)?(?:class|struct) (\w+)[^;{]*\{$(.*?)^\};", re.MULTILINE | re.DOTALL)
ONE_OWNER = re.compile(r"^/// One owner: \S", re.MULTILINE)
FIELDS = re.compile(r"^  (?! )[\w:<>,&* \[\]()]+?[ *&>]((?:\w+_\b[^;(){}=,]*(?:\{[^{}]*\}| = [^;,]*)?(?:, )?)+)"
                    r"(?: VMART_\w+\([^)]*\))?(?: = [^;]*|\{[^{}]*\})?;", re.MULTILINE)


def _runtime(tree):
    return {path: tree.files[path] for path in tree.paths("runtime/", endings=(".hpp", ".cpp"))}


def _small_units(files):
    includers = defaultdict(set)
    for path, text in files.items():
        unit = path.rpartition(".")[0]
        for name in INCLUDE.findall(text):
            if (named := f"runtime/{name}") != unit:
                includers[named].add(unit)
    for unit, users in includers.items():
        parts = [files[path] for path in (unit + ".hpp", unit + ".cpp") if path in files]
        if parts and len(users) == 1 and all(text.count("\n") < SMALL_LINES for text in parts):
            yield unit


def fields_of(body):
    """How many members end in `_`, which is what private state is called."""
    return sum(len(re.findall(r"\b\w+_\b(?=\s*(?:[;,{=\[]|VMART|$))", line))
               for line in FIELDS.findall(body))


def _big_classes(files):
    """Where one object really owns all of it, a line of its comment says why: `/// One owner: ...`."""
    for path, text in files.items():
        for comment, name, body in CLASS.findall(text):
            if fields_of(body) > STATE_MAX and not ONE_OWNER.search(comment):
                yield f"{path}: {name}"


def counted(tree):
    files = _runtime(tree)
    comments = [path for path in tree.paths("runtime/", "include/", endings=CPP)
                for line in tree.files[path].split("\n") if OF_COMMENT.search(line)]
    found = (list(_small_units(files)), comments, list(_big_classes(files)))
    return dict(zip(LIMITS, map(len, found)))


def numbers_only_shrink(tree):
    numbers = counted(tree)
    for line, text in tree.lines(THIS) if tree.exists(THIS) else ():
        if not (limit := LIMIT.match(text)):
            continue
        what, most, number = limit.group(1), int(limit.group(2)), numbers[limit.group(1)]
        if number > most:
            yield Offence(THIS, line, f"{what}: {number}, at most {most}")
        elif number < most:
            yield Offence(THIS, line, f"{what}: {number} now; write it here, so that it stays")


CHECKS = [numbers_only_shrink]
