"""I/O of a virtual disk, as libCacheSim has CloudPhysics' VSCSI traces in CSV: version,time,op,size,lbn, with
times in seconds, SCSI operation codes in hexadecimal, sizes in bytes, and block numbers of 512 bytes.

The file says nothing of GPUs; the parameters do. The disk is cut into regions of "region_bytes". A region is an
object of that size, tagged "disk", which is allocated at its first I/O. Objects belong to "gpus" GPUs by turns,
which use them by kernels: each I/O reads or writes the objects that it touches, in full, or with "whole" 0 only
its bytes. The I/Os of a second are spread evenly over it, and time passes "speed" times as fast. An I/O earlier
than the previous one is a bad line."""

from vmart.lab.importers.event_order import allocation, begun_use, ended, timed, use
from vmart.lab.importers.input_lines import Refused, each_csv_line, whole_number
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.seconds import SpreadSeconds

PARAMETERS = (
    Parameter("region_bytes", 2 << 20, 1 << 12, 1e12, "size of a part of the disk"),
    Parameter("gpus", 4, 1, 64, "GPUs that use the parts by turns"),
    Parameter("speed", 1000, 1e-3, 1e9, "seconds of the file a second", whole=False),
    Parameter("whole", 1, 0, 1, "1: an I/O uses whole parts; 0: only its bytes"))

HEADER = "version,time,op,size,lbn"
BLOCK_BYTES = 512
SECONDS_MAX, BYTES_MAX, BLOCK_MAX = 1 << 33, 1 << 32, 1 << 48
REGIONS_MAX = 10_000_000
KINDS = {"28": "read", "88": "read", "2a": "write", "8a": "write"}  # READ(10), READ(16) and so on of SCSI.


class Disk:
    """Turns I/Os into accesses."""

    def __init__(self, values, order):
        self._values = values
        self._order = order
        self._objects = {}  # By the number of the region on the disk.

    def use(self, now, kind, begin, size):
        self._order.advance(now)
        region_bytes, end = self._values["region_bytes"], begin + size
        while begin < end:
            number = begin // region_bytes
            to = min(end, (number + 1) * region_bytes)
            thing = self._allocated(number, now)
            part = (use(thing, region_bytes, kind) if self._values["whole"]
                    else use(thing, to - begin, kind, offset=begin % region_bytes))
            self._order.add(now, ended(begun_use(now, gpu=thing % self._values["gpus"]), [part]))
            begin = to

    def _allocated(self, number, now):
        if number in self._objects:
            return self._objects[number]
        thing = self._objects[number] = len(self._objects)
        if len(self._objects) > REGIONS_MAX:
            raise ValueError("more regions than there can be")
        self._order.add(now, timed(now, allocation(thing, self._values["region_bytes"], "disk")))
        return thing


def convert(source, order):
    ios = SpreadSeconds(source.values["speed"], Disk(source.values, order).use)
    before = 0

    def read(_, time, op, size, lbn):
        nonlocal before
        second = whole_number(time, "time", 0, SECONDS_MAX)
        if op not in KINDS:
            raise Refused(f'op: "{op}" is neither a read nor a write')
        size = whole_number(size, "size", 1, BYTES_MAX)
        begin = whole_number(lbn, "lbn", 0, BLOCK_MAX) * BLOCK_BYTES
        if second < before:
            raise Refused("is earlier than the I/O above it")
        before = second
        ios.add(second, KINDS[op], begin, size)

    each_csv_line(source.path, HEADER, source.bad, 0, read)
    ios.finish()
