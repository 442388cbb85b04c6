"""Memory snapshots of PyTorch: the pickle that torch.cuda.memory._dump_snapshot writes, with the allocations and frees
of each GPU since torch.cuda.memory._record_memory_history began.

Each allocation is an object with the bytes that the program asked for. One that was there before the history is tagged
"kept" and allocated at time 0; any other is tagged "made". Objects are freed when the allocator could use their memory
again, which is later than the program freed them if other streams used it. The snapshot does not say who used
memory when. All that is sure: not before it was allocated, and not after the program freed it. So the GPU of an object
writes it in full when it is allocated, and reads it in full when the program frees it. Time passes "speed" times as
fast."""

import heapq
import operator

from vmart.lab.importers.event_order import begun_use, ended, free, timed, use
from vmart.lab.importers.input_lines import Refused, is_whole
from vmart.lab.importers.memory_lives import LEAST_BYTES, Life, Lives
from vmart.lab.importers.parameters import Parameter
from vmart.lab.importers.pickles import load_plain

PARAMETERS = (LEAST_BYTES, Parameter("speed", 1, 1e-6, 1e6, "seconds of the file a second", whole=False))
GPUS_MAX = 1024
MICROSECONDS_MAX = 1 << 52
ADDRESS_MAX = (1 << 64) - 1


def member(values, key, kind):
    """Raises Refused if `values` is no dictionary with such a member."""
    if not isinstance(values, dict) or not isinstance(values.get(key), kind):
        raise Refused(f"has no {key}" if isinstance(values, dict) else "is not a dictionary")
    return values[key]


def whole(values, key, most):
    value = member(values, key, int)
    if not is_whole(value) or not 0 <= value <= most:
        raise Refused(f"{key}: is not a whole number from 0 to {most}")
    return value


def events_of(history, source):
    """Yields the time in us, the GPU, the action, the address and the bytes of each event of an allocation."""
    gpu, events = history
    before = 0
    for number, event in enumerate(events, start=1):
        try:
            action = member(event, "action", str)
            if action not in ("alloc", "free_requested", "free_completed"):
                continue
            time, address, size = (whole(event, "time_us", MICROSECONDS_MAX), whole(event, "addr", ADDRESS_MAX),
                                   whole(event, "size", ADDRESS_MAX))
            if time < before:
                raise Refused("is earlier than the event above it")
        except Refused as reason:
            source.bad.add(number, f"of GPU {gpu}: {reason}")
            continue
        before = time
        yield time, gpu, action, address, size, number


def read_lives(snapshot, source):
    """All allocations. Raises Refused if the snapshot is none."""
    histories = member(snapshot, "device_traces", list)
    if len(histories) > GPUS_MAX or not all(isinstance(one, list) for one in histories):
        raise Refused("device_traces: is not a list of a list for each GPU")
    lives, first = Lives(), None
    each = [events_of(one, source) for one in enumerate(histories)]
    for time, gpu, action, address, size, number in heapq.merge(*each, key=operator.itemgetter(0)):
        first = time if first is None else first
        now = int((time - first) * 1000 / source.values["speed"])
        try:
            if action == "alloc":
                lives.allocate(now, gpu, address, size)
            else:
                lives.free(now, gpu, address, size, reusable=action == "free_completed")
        except Refused as reason:
            source.bad.add(number, f"of GPU {gpu}: {reason}")
    if first is None:
        raise Refused("has no history of allocations: torch.cuda.memory._record_memory_history() has to be called "
                      "before what is to be seen")
    for number, segment in enumerate(member(snapshot, "segments", list), start=1):
        try:
            keep_blocks(segment, lives)
        except Refused as reason:
            raise Refused(f"segment {number}: {reason}") from None
    return lives.all


def keep_blocks(segment, lives):
    """What is allocated at the end; blocks follow each other in their segment."""
    gpu, address = whole(segment, "device", GPUS_MAX), whole(segment, "address", ADDRESS_MAX)
    for block in member(segment, "blocks", list):
        size = whole(block, "size", ADDRESS_MAX)
        if member(block, "state", str) == "active_allocated":
            lives.keep(gpu, address, whole(block, "requested_size", ADDRESS_MAX) or size)
        address += size


def convert(source, order):
    for life in sorted(read_lives(load_plain(source.path), source), key=Life.order):
        if life.bytes < source.values["least_bytes"]:
            continue
        begin = life.begin or 0
        order.advance(begin)
        order.add(begin, timed(begin, life.allocation()))
        if life.begin is not None:
            order.add(begin, ended(begun_use(begin, gpu=life.gpu), [use(life.thing, life.bytes, "write")]))
        if life.freed is not None:
            order.add(life.freed, ended(begun_use(life.freed, gpu=life.gpu), [use(life.thing, life.bytes)]))
        if life.end is not None:
            order.add(life.end, timed(life.end, free(life.thing)))
