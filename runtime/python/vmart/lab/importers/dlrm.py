"""Locality statistics of Meta's DLRM data sets: for each class of embedding rows with similar look-up counts
in a batch, its share of all look-ups ("Ratio of index distribution").

The file contains histograms, not look-ups, so the converter samples them. It scales one section of the file
("section", counted from 0) to "lookups" look-ups per batch: each class gets as many rows as its share of
look-ups requires if each row is looked up as often as the middle of the class. Rows of "row_bytes" are
consecutive in objects of "object_bytes" tagged "rows", starting with the most frequent classes; with
"grouped" 0 they are mixed, and all objects are used alike. Each batch is split into "tasks". Each task reads
each object once, in full, with far less than one pass, so that the bytes match the sampled number of
look-ups. That number has a Poisson distribution and depends on the seed."""

import re
from typing import NamedTuple

from vmart.lab.importers.event_order import allocation, begun_use, ended, free, timed, use
from vmart.lab.importers.input_lines import Refused, lines_of
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.random_numbers import Poisson, RandomNumbers, rounded, sum_of

PARAMETERS = (
    Parameter("section", 0, 0, 1e6, "which histogram of the file"),
    Parameter("lookups", 1e7, 1, 1e12, "look-ups a batch"),
    Parameter("row_bytes", 512, 1, 1 << 20, "size of an embedding row"),
    Parameter("object_bytes", 2 << 20, 1 << 12, 1e12, "size of an object"),
    Parameter("grouped", 1, 0, 1, "1: rows are sorted by look-ups; 0: mixed"),
    Parameter("batches", 100, 1, 1e9, "batches"),
    Parameter("batch_us", 100_000, 1, 1e12, "time between batches"),
    Parameter("tasks", 8, 1, 10_000, "parts of a batch, one per device"))

ROWS_MAX, OBJECTS_MAX = 1e11, 1e7
NUMBER = r"(\d+\.?\d*(?:e[-+]?\d+)?)"
CLASS = re.compile(rf"\({NUMBER}(?:\+|, {NUMBER}\]): {NUMBER}", re.ASCII | re.IGNORECASE)


class RowClass(NamedTuple):
    """Rows with more than `least` and at most `most` look-ups per batch."""

    least: float
    most: float
    share: float

    def lookups_a_row(self):
        """The mean of the whole numbers in the class."""
        return (self.least + 1 + self.most) / 2


def read_class(line):
    """Of "(2, 4]: 0.068" or "(32768+: 0.019"."""
    found = CLASS.fullmatch(line)
    if not found:
        raise Refused("is not a share of a class")
    least, most, share = found.groups()
    one = RowClass(float(least), 2 * float(least) if most is None else float(most), float(share))
    if one.share > 1 or one.most <= one.least:
        raise Refused("is not a share of a class")
    return one


def read_section(source):
    """The classes of one section, with the most frequent rows first."""
    wanted, sections, inside, classes = source.values["section"], 0, False, []
    for number, line in lines_of(source.path):
        if line.startswith("Ratio of index distribution"):
            inside = sections == wanted
            sections += 1
        elif not line.startswith("("):
            inside = False
        elif inside:
            try:
                classes.append(read_class(line))
            except Refused as reason:
                source.bad.add(number, reason)
    if not classes:
        raise ValueError(f"{source.path}: has {sections} sections, but not number {wanted}")
    return classes[::-1]


def lookups_of_objects(source):
    """The mean number of look-ups per batch for each object."""
    values = source.values
    rows_an_object = max(1, values["object_bytes"] // values["row_bytes"])
    rows, room, objects = 0, rows_an_object, [0.0]
    for one in read_section(source):
        left = rounded(one.share * values["lookups"] / one.lookups_a_row())
        rows += left
        if rows > ROWS_MAX or rows / rows_an_object > OBJECTS_MAX:
            raise ValueError("more rows than there can be")
        while left > 0:
            if room == 0:
                objects.append(0.0)
                room = rows_an_object
            taken = min(left, room)
            objects[-1] += taken * one.lookups_a_row()
            room -= taken
            left -= taken
    if values["grouped"]:
        return objects
    return [sum_of(objects) / len(objects)] * len(objects)


def convert(source, order):
    values = source.values
    size, tasks, batch_ns = values["object_bytes"], values["tasks"], values["batch_us"] * 1000
    passes_a_lookup = values["row_bytes"] / size
    drawn = [Poisson(lookups / tasks) for lookups in lookups_of_objects(source)]
    random = RandomNumbers(source.seed)
    order.add(0, "".join(timed(0, allocation(thing, size, "rows")) for thing in range(len(drawn))))
    for task in range(values["batches"] * tasks):
        now = task // tasks * batch_ns
        order.advance(now)
        counts = [one.draw(random) for one in drawn]
        order.add(now, ended(begun_use(now, duration=batch_ns, task=task + 1), [
            use(thing, size, passes=count * passes_a_lookup) for thing, count in enumerate(counts) if count]))
    end = values["batches"] * batch_ns
    order.add(end, "".join(timed(end, free(thing)) for thing in range(len(drawn))))
