"""The nodes of a Chakra execution trace that ran on GPUs, as schema/protobuf/et_def.proto has them: messages, each
after its length as a varint; the first is a `GlobalMetadata`, the others are `Node`s. Reads the few members that
the importer needs, so that it does not need the library protobuf."""

import re
from typing import NamedTuple

from vmart.lab.importers.event_order import OBJECT_BYTES_MAX
from vmart.lab.importers.input_lines import Refused, opened

MESSAGE_BYTES_MAX = 16 << 20
NODES_MAX = 10_000_000
MICROSECONDS_MAX = 10**15
DEPENDENCIES_MAX = 8192  # A task waits for at most twice as many.
ID, TYPE, CTRL_DEPS, DATA_DEPS, DURATION, INPUTS, OUTPUTS, ATTRIBUTE = 1, 3, 4, 5, 7, 8, 9, 10
VALUES = 1  # Of an IOInfo.
NAME, BOOL, INTEGERS = 1, 27, (7, 9, 11, 13)  # Of an AttributeProto.
COLLECTIVE = 7
# [tensor, storage, offset, elements, bytes of an element, 'device']
TENSOR = re.compile(r"\[(\d{1,20}), (\d{1,20}), (\d{1,20}), (\d{1,20}), (\d{1,20}), ['\"]cuda:(\d{1,4})['\"]\]",
                    re.ASCII)


class Part(NamedTuple):
    """The bytes of a storage that a node reads or writes, or both."""

    begin: int
    end: int
    kind: str


class Node(NamedTuple):
    """What ran on a GPU. Its parts are by storage, which is a pair of its number and its GPU."""

    number: int
    duration: int
    stream: int
    deps: tuple
    parts: dict
    collective: bool


def varint(data, at):
    """The number at a place, and the place after it. Raises IndexError at the end of the data."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Refused("has a number of more than ten bytes")


def members_of(message):
    """Yields the number and the value of each member: a whole number, or bytes."""
    at, end = 0, len(message)
    try:
        while at < end:
            key, at = varint(message, at)
            size = {1: 8, 5: 4}.get(key & 7)
            if key & 7 == 0:
                value, at = varint(message, at)
                yield key >> 3, value
                continue
            if key & 7 == 2:
                size, at = varint(message, at)
            if size is None or size > end - at:
                raise Refused("is not a message of protobuf")
            yield key >> 3, message[at:at + size]
            at += size
    except IndexError:
        raise Refused("is not a message of protobuf") from None


def messages_of(path):
    """Yields the number of each message, from 1 on, and its bytes. Raises ValueError as `opened`, and if one is cut
    off or longer than any can be."""
    with opened(path) as file:
        number = 0
        while first := file.read(1):
            number += 1
            while first[-1] >= 0x80 and len(first) < 5 and (more := file.read(1)):
                first += more
            try:
                size, _ = varint(first, 0)
            except IndexError:
                raise ValueError(f"{path}: message {number}: its length is no number") from None
            if size > MESSAGE_BYTES_MAX:
                raise ValueError(f"{path}: message {number}: has {size} bytes, at most {MESSAGE_BYTES_MAX}")
            message = file.read(size)
            if len(message) < size:
                raise ValueError(f"{path}: message {number}: is cut off after {len(message)} of {size} bytes")
            yield number, message


def _numbers(value):
    """The values of a repeated member: one, or packed ones."""
    if isinstance(value, int):
        return [value]
    values, at = [], 0
    try:
        while at < len(value):
            one, at = varint(value, at)
            values.append(one)
    except IndexError:
        raise Refused("is not a message of protobuf") from None
    return values


def _message(value):
    if isinstance(value, int):
        raise Refused("is not a message of protobuf")
    return members_of(value)


def _attribute(value):
    """Its name and its value, None if that is neither true nor false nor a whole number."""
    name = found = None
    for number, one in _message(value):
        if number == NAME and isinstance(one, bytes):
            name = one
        elif number == BOOL or number in INTEGERS:
            found = one
    return name, found


def _add_parts(parts, value, kind):
    for number, text in _message(value):
        if number != VALUES or isinstance(text, int):
            continue
        for found in TENSOR.findall(text.decode("utf-8", "replace")):
            _, storage, offset, elements, size, gpu = map(int, found)
            begin, end = offset * size, (offset + elements) * size
            if end > OBJECT_BYTES_MAX:
                raise Refused(f"storage {storage} has {end} bytes, at most {OBJECT_BYTES_MAX}")
            if begin == end:
                continue
            before = parts.get((storage, gpu), Part(begin, end, kind))
            parts[storage, gpu] = Part(min(begin, before.begin), max(end, before.end),
                                       kind if kind == before.kind else "read_write")


def gpu_node(message):
    """None if it ran on a CPU. Raises Refused."""
    number, duration, deps, parts, stream, collective = None, 0, [], {}, 0, False
    for member, value in members_of(message):
        if member == ATTRIBUTE:
            name, found = _attribute(value)
            if name == b"is_cpu_op" and found:
                return None
            if name == b"tid" and isinstance(found, int):
                stream = found
        elif member in (CTRL_DEPS, DATA_DEPS):
            deps += _numbers(value)
        elif member in (INPUTS, OUTPUTS):
            _add_parts(parts, value, "read" if member == INPUTS else "write")
        elif member == ID and isinstance(value, int):
            number = value
        elif member == DURATION and isinstance(value, int):
            duration = value
        elif member == TYPE:
            collective = value == COLLECTIVE
    if number is None:
        raise Refused("has no id")
    if len(deps) > DEPENDENCIES_MAX:
        raise Refused(f"has {len(deps)} dependencies, at most {DEPENDENCIES_MAX}")
    if duration > MICROSECONDS_MAX:
        raise Refused(f"takes {duration} us, at most {MICROSECONDS_MAX}")
    if collective and all(part.kind == "read" for part in parts.values()):
        parts = {storage: part._replace(kind="read_write") for storage, part in parts.items()}  # In place.
    return Node(number, duration * 1000, stream, tuple(deps), parts, collective)


def read_nodes(source):
    """Those that ran on GPUs, in the order of the file."""
    nodes = []
    for number, message in messages_of(source.path):
        if number == 1:
            continue
        try:
            node = gpu_node(message)
        except Refused as reason:
            source.bad.add(number, reason)
            continue
        if node:
            nodes.append(node)
        if len(nodes) > NODES_MAX:
            raise ValueError(f"{source.path}: has more than {NODES_MAX} nodes of GPUs")
    if not any(node.parts for node in nodes):
        raise ValueError(f"{source.path}: names no tensors on GPUs in {len(nodes)} nodes that ran there")
    return nodes
