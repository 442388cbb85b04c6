"""Compares what was made anew with what is committed: tables of a page, cells of a study, and drawings. Each function
yields a line for each difference. Standard library only."""

import re
import xml.etree.ElementTree

from study_cells import BASE, StudyError

RERUN = 0.05        # What cells that were run again may differ by, as a share: policies change between commits.
POINTS_APART = 0.5  # Of a drawing: about a quarter of a marker.
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
POLICY = re.compile(r"`([^`]+)`")
ROW_HEADS = ("policy", "machine", "trace")


def is_near(here, there, within):
    """Two numbers as a table shows them. Unless they have to be equal (`within` is 0), one unit of the last digit shown is
    allowed, too, and in counts one: of a cell at the limit."""
    digits = there.partition("e")[0].partition(".")[2]
    return abs(float(here) - float(there)) <= (within * abs(float(there)) + 1.01 * 10.0 ** -len(digits) if within else 0)


def same_text(here, there, within):
    """Whether two cells of a table have the same words, and numbers within that share."""
    if NUMBER.sub("#", here) != NUMBER.sub("#", there):
        return False
    return all(is_near(one, other, within) for one, other in zip(NUMBER.findall(here), NUMBER.findall(there)))


def entries(text):
    """The cells of the tables of a page's part, by heading, row and column. Columns with one heading are counted."""
    found, heading, columns = {}, "", None
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            columns = None
            continue
        values = [value.strip() for value in line.strip()[1:-1].split("|")]
        if columns is None:
            columns = [name if name not in values[:at] else f"{name} ({values[:at].count(name) + 1})"
                       for at, name in enumerate(values)]
        elif set(line) - set("|-: "):
            heads = sum(name in ROW_HEADS for name in columns)
            for name, value in list(zip(columns, values))[heads:]:
                found[heading, ", ".join(values[:heads]), name] = value
    return found


def table_below(text, heading):
    """The first table below this heading."""
    _, _, below = text.partition(f"{heading}\n")
    found = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    if found is None:
        raise StudyError(f"there is no table below {heading}")
    return found[0]


def named_policies(key):
    """Those that a row and a column are of."""
    return {name for part in key[1:] for name in POLICY.findall(part)}


def retired(committed, policies):
    """The policies of committed tables that are no longer run."""
    return {name for key in entries(committed) for name in named_policies(key)} - set(policies) - {BASE}


def table_differences(committed, made, policies, within=RERUN):
    """Of each committed number whose policy is among `policies`."""
    gone = retired(committed, policies)
    made = entries(made)
    for key, there in entries(committed).items():
        if named_policies(key) & gone:
            continue
        here = made.get(key)
        if here is None or not same_text(here, there, within):
            place = ": ".join(part for part in key if part)
            yield f"{place}: is {here if here is not None else 'missing'}, should be {there}"


def cell_differences(kept, made, within=RERUN, part=False):
    """Of each cell that was made: its time, over that in the kept experiment, which has it. Unless it is a `part`, all
    cells of its policies have to be there."""
    before = {(*cell.place, cell.policy): cell for cell in kept.cells}
    found = {(*cell.place, cell.policy) for cell in made.cells}
    for key in before:
        if not part and key not in found and key[-1] in made.policies:
            yield f"{', '.join(key)}: is missing"
    for cell in made.cells:
        place = ", ".join((*cell.place, cell.policy))
        old = before.get((*cell.place, cell.policy))
        if old is None:
            yield f"{place}: is not among the committed cells"
        elif bool(old.lost) != bool(cell.lost):
            yield f"{place}: accesses were lost in one of them only"
        elif abs(cell.time_s / old.time_s - 1) > within:
            yield f"{place}: takes {cell.time_s:.6g} s, should take {old.time_s:.6g} s ({cell.time_s / old.time_s - 1:+.1%})"


def drawn(path):
    """The texts of an SVG, and where its markers are, in order."""
    texts, marks = [], []
    for element in xml.etree.ElementTree.parse(path).getroot().iter():
        kind = element.tag.rpartition("}")[2]
        if kind == "text":
            texts.append("".join(element.itertext()).strip())
        elif kind == "use" and "x" in element.attrib:
            marks.append((float(element.get("x")), float(element.get("y"))))
    return texts, marks


def drawing_differences(committed, made):
    """Of two SVGs: the numbers that are written in them, and where their points are."""
    (ours, marks), (theirs, places) = drawn(made), drawn(committed)
    if len(ours) != len(theirs):
        yield f"{made}: has {len(ours)} texts, should have {len(theirs)}"
    for here, there in zip(ours, theirs):
        if not same_text(here, there, 0):
            yield f"{made}: says {here}, should say {there}"
    if len(marks) != len(places):
        yield f"{made}: has {len(marks)} points, should have {len(places)}"
    for here, there in zip(marks, places):
        if max(abs(one - other) for one, other in zip(here, there)) > POINTS_APART:
            yield f"{made}: a point is at {here}, should be at {there}"
