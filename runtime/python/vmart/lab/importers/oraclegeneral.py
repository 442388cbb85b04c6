"""Requests to a cache in libCacheSim's binary form oracleGeneral: records of 24 bytes with the second, the number of
the object, its bytes, and the number of the request that asks for it next (-1 or 2^63 - 1: none does).

The file says nothing of GPUs; the parameters do. An object of the file is an object of "scale" times its bytes, tagged
"cached". It is allocated and written at its first request, read in full at each later one, and freed at the
last one, which the file knows. A request with another size replaces the object: it is freed, allocated and written.
Objects belong to "gpus" GPUs by turns, in the order of their first requests. The requests of a second are spread
evenly over it, and time passes "speed" times as fast. A request earlier than the previous one, or without bytes,
is a bad record."""

import struct

from vmart.lab.importers.event_order import OBJECT_BYTES_MAX, allocation, begun_use, ended, free, timed, use
from vmart.lab.importers.input_lines import Refused, records_of
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.seconds import SpreadSeconds

PARAMETERS = (
    Parameter("scale", 1, 1, 1e9, "bytes of an object a byte of the file"),
    Parameter("gpus", 4, 1, 64, "GPUs that use the objects by turns"),
    Parameter("speed", 1000, 1e-3, 1e9, "seconds of the file a second", whole=False),
    Parameter("requests", 0, 0, 1e12, "requests to take, the first ones of the file; 0: all"))

RECORD = struct.Struct("<IQIq")
NONE_FOLLOWS = (-1, (1 << 63) - 1)
OBJECTS_MAX = 10_000_000


class Cache:
    """Turns requests into accesses."""

    def __init__(self, values, order):
        self._values = values
        self._order = order
        self._things = {}  # Numbers of objects and their bytes, by their keys in the file.
        self._made = 0

    def request(self, now, key, size, last):
        self._order.advance(now)
        thing, before = self._things.get(key, (self._made, 0))
        if size != before:
            self._replace(now, key, thing, before, size)
        kind = "read" if size == before else "write"
        begun = begun_use(now, gpu=thing % self._values["gpus"])
        self._order.add(now, ended(begun, [use(thing, size, kind)]))
        if last:
            del self._things[key]
            self._order.add(now, timed(now, free(thing)))

    def _replace(self, now, key, thing, before, size):
        if before:
            self._order.add(now, timed(now, free(thing)))
        else:
            self._made += 1
        self._things[key] = thing, size
        if len(self._things) > OBJECTS_MAX:
            raise Refused("has more objects than there can be")
        self._order.add(now, timed(now, allocation(thing, size, "cached")))


def convert(source, order):
    requests = SpreadSeconds(source.values["speed"], Cache(source.values, order).request)
    before = good = 0
    for number, (second, key, size, following) in records_of(source.path, RECORD):
        try:
            if second < before:
                raise Refused("is earlier than the request above it")
            if not 0 < size <= OBJECT_BYTES_MAX // source.values["scale"]:
                raise Refused(f"its object has {size} bytes, not 1 to {OBJECT_BYTES_MAX // source.values['scale']}")
        except Refused as reason:
            source.bad.add(number, reason)
            continue
        before = second
        requests.add(second, key, size * source.values["scale"], following in NONE_FOLLOWS)
        good += 1
        if good == source.values["requests"]:
            break
    requests.finish()
