#!/usr/bin/env python3
"""Goal: Python programs follow moves through ctypes, and a function that raises keeps memory in place.
Method: two hooks beside moves on a simulated machine.

move_hook_test.py LIBVMART.SO
"""

import ctypes
import os
import sys
import threading

BEGINS, DONE, STAYED = range(3)
CANCELLED, HOLD = 7, 2


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


class MoveEvent(ctypes.Structure):  # vmart_move_event
    _fields_ = [("size_bytes", ctypes.c_size_t), ("pointer", ctypes.c_void_p),
                ("offset", ctypes.c_size_t), ("bytes", ctypes.c_size_t), ("at", Place),
                ("to", Place), ("generation", ctypes.c_uint64), ("phase", ctypes.c_int32),
                ("done", ctypes.c_int32)]


class Options(ctypes.Structure):  # vmart_migrate_options, the first version
    _fields_ = [("size_bytes", ctypes.c_size_t), ("mode", ctypes.c_int32), ("scope", ctypes.c_int32),
                ("rest", ctypes.c_int32 * 8)]


MoveCallback = ctypes.CFUNCTYPE(None, ctypes.POINTER(MoveEvent), ctypes.c_void_p)


class Hook:
    def __init__(self, vmart, pointer, function):
        self.vmart, self.phases, self.function = vmart, [], function
        self.callback = MoveCallback(self.call)  # Lives as long as the hook.
        self.handle = ctypes.c_void_p()
        status = vmart.vmart_move_hook_create(pointer, self.callback, None, ctypes.byref(self.handle))
        assert status == 0, vmart.vmart_last_error()

    def call(self, event, _user):
        self.phases.append(event.contents.phase)
        self.function(event.contents)
        event.contents.done = 1

    def release(self):
        self.vmart.vmart_move_hook_release(self.handle)


def main(library):
    os.environ["VMART_DRIVER"] = "sim:h200x2"
    vmart = ctypes.CDLL(library)
    vmart.vmart_last_error.restype = ctypes.c_char_p
    pointer = ctypes.c_void_p()
    assert vmart.vmart_alloc(ctypes.c_size_t(1 << 20), Place(0, 0), ctypes.byref(pointer)) == 0

    def move(gpu):
        return vmart.vmart_migrate(pointer, ctypes.c_size_t(0), ctypes.c_size_t(0), Place(0, gpu), None)

    sizes, raised = [], []
    follows = Hook(vmart, pointer, lambda event: sizes.append((event.size_bytes, event.pointer)))
    assert move(1) == 0, vmart.vmart_last_error()
    assert follows.phases == [BEGINS, DONE], follows.phases
    assert sizes[0] == (ctypes.sizeof(MoveEvent), pointer.value), sizes

    def fails(_event):
        raise ValueError("on purpose")

    sys.unraisablehook = lambda what: raised.append(str(what.exc_value))
    failing = Hook(vmart, pointer, fails)
    assert move(0) == CANCELLED
    assert raised == ["on purpose"] and follows.phases[2:] == [BEGINS, STAYED], (raised, follows.phases)
    failing.release()
    assert move(0) == 0, vmart.vmart_last_error()

    # On a thread of the library, which Python does not know yet.
    threads, migration = [], ctypes.c_void_p()
    beside = Hook(vmart, pointer, lambda _event: threads.append(threading.get_ident()))
    options = Options(ctypes.sizeof(Options), 0, HOLD)
    assert vmart.vmart_migrate_async(pointer, ctypes.c_size_t(0), ctypes.c_size_t(0), Place(0, 1),
                                     ctypes.byref(options), ctypes.byref(migration)) == 0
    assert vmart.vmart_migration_wait(migration) == 0, vmart.vmart_last_error()
    vmart.vmart_migration_release(migration)
    assert beside.phases == [BEGINS, DONE] and threading.get_ident() not in threads, threads
    beside.release()
    follows.release()
    assert vmart.vmart_free(pointer) == 0
    print(f"{len(follows.phases)} calls of a hook, and {len(raised)} refused a move")


if __name__ == "__main__":
    main(sys.argv[1])
