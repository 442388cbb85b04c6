"""Events of a trace as JSON lines, as docs/reference/traces.md has them, sorted by time."""

import bisect
import json
import operator
import struct
from typing import NamedTuple

from vmart.lab.importers.input_lines import Refused

OBJECT_BYTES_MAX = 1 << 50  # As `trace_object_bytes_max`.
TIME_END = 1 << 63  # As the reader of traces.
WAITING_MAX = 10_000
FLOAT = struct.Struct("f")
TIME = operator.itemgetter(0)


class EventOrder:
    """Sorts events by time on their way from an importer to `write`; those of equal times keep their order
    of arrival. Holds up to twice as many as those after the last `advance`, or some more."""

    def __init__(self, write):
        self._write = write
        self._waiting = []  # Times and lines.
        self._enough = WAITING_MAX  # To be sorted.
        self._now = 0

    def add(self, time, lines):
        """Requires: `time` is not before that of the last `advance`. Raises Refused if no trace can have it."""
        if time >= TIME_END:
            raise Refused(f"has events at {time} ns, after the end of time")
        self._waiting.append((time, lines))

    def advance(self, now):
        """No event before `now` follows."""
        if len(self._waiting) < self._enough or now == self._now:
            return
        self._now = now
        self._waiting.sort(key=TIME)
        self._pass_on(bisect.bisect_left(self._waiting, now, key=TIME))
        self._enough = max(WAITING_MAX, 2 * len(self._waiting))  # Those that wait long are not sorted each time.

    def finish(self):
        self._waiting.sort(key=TIME)
        self._pass_on(len(self._waiting))

    def _pass_on(self, count):
        self._write("".join([lines for _, lines in self._waiting[:count]]))
        del self._waiting[:count]


class Task(NamedTuple):
    """A declared task. Times are those without a memory bottleneck. Number 0: none."""

    number: int = 0
    end: int = 0


NO_TASK = Task()


class ClosedLoop:
    """Adds the tasks of a closed loop: numbers them from 1 in the order of their declarations, and gives
    each the time at which it would start if no access took longer than its task's compute."""

    def __init__(self, order):
        self._order = order
        self._tasks = 0

    def declare(self, uses, hints=(), *, time=0, compute, repeat=1, request=0, gpu=None, after=()):
        """Declares a task, which starts no earlier than `time` and the ends of the tasks `after`. `uses` are
        those of `use`, `hints` those of `hint`, which the task gives when it starts."""
        self._tasks += 1
        number = self._tasks
        for one in after:
            time = max(time, one.end)
        begin = f'{{"time_ns":{time},"task":{number}'
        device = "" if gpu is None else f',"device":{gpu}'
        belongs = f',"request":{request}' if request else ""
        awaited = ",".join([str(one.number) for one in after if one.number])
        waits = f',"after":[{awaited}]' if awaited else ""
        lines = (f'{begin},"event":"task","compute_ns":{compute},"repeat":{repeat}{belongs}{device}{waits}}}\n')
        self._order.add(time, lines + ended(begin + device, uses) + ended(begin, hints))
        return Task(number, time + compute * repeat)

    def at_end(self, task, event, time=0):
        """An allocation, a free, a mark or a hint when `task` has ended, but not before `time`."""
        time = max(time, task.end)
        self._order.add(time, timed(time, event, task))


def begun(time, task=NO_TASK):
    """The begin of the line of an event that waits for no task, or only for this one."""
    return f'{{"time_ns":{time},"after_task":{task.number}' if task.number else f'{{"time_ns":{time}'


def ended(begin, events):
    """The lines of events that share the begin of their lines."""
    return "".join([f"{begin}{one}}}\n" for one in events])


def timed(time, event, task=NO_TASK):
    """The line of one event."""
    return f"{begun(time, task)}{event}}}\n"


# Events without their times, their tasks, and the GPUs of those.


def allocation(thing, size, tag):
    return f',"event":"alloc","object":{thing},"bytes":{size},"tag":"{tag}"'


def free(thing):
    return f',"event":"free","object":{thing}'


def mark(text):
    return f',"event":"mark","tag":{json.dumps(text)}'


def use(thing, size, kind="read", passes=1, offset=0):
    """An access. `kind` is "read", "write" or "read_write"."""
    start = f',"offset":{offset}' if offset else ""
    how = "" if kind == "read" else f',"use":"{kind}"'
    times = "" if passes == 1 else passes_text(passes)
    return f',"event":"access","object":{thing},"bytes":{size}{how}{start}{times}'


def written(read):
    """A write of the range of this read."""
    return f'{read},"use":"write"'


def begun_use(time, *, duration=0, task=0, gpu=None):
    """The begin of the line of an access in an open loop."""
    part = f',"task":{task}' if task else ""
    device = "" if gpu is None else f',"device":{gpu}'
    return f'{{"time_ns":{time},"duration_ns":{duration}{part}{device}'


def hint(thing, size, *, next_use, passes=1, until=0, gpu=None):
    end = f',"until_ns":{until}' if until else ""
    device = "" if gpu is None else f',"device":{gpu}'
    return (f',"event":"hint","object":{thing},"bytes":{size},"next_use_ns":{next_use}{end}{device}'
            f"{passes_text(passes)}")


def passes_text(passes):
    """Traces store passes as a float of 32 bits: the nearest one."""
    return "" if passes == 1 else f',"passes":{FLOAT.unpack(FLOAT.pack(passes))[0]!r}'
