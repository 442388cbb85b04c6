#!/usr/bin/env python3
"""Captures of PyTorch's on an attached stream, in every mode, beside everything that the runtime does
on other threads: live moves, streams that are attached and detached (the capturing one too), parks,
frees, and a policy's moves. No capture may be ended, and none may stand.

torch_captures.py LIBVMART.SO EXAMPLES [COUNT]     leaves with 77 without PyTorch and a GPU

With one GPU, memory moves between it and the host, and no policy moves any.
"""

import collections
import ctypes
import faulthandler
import os
import sys
import threading
import time

WORDS = 4 << 20  # 16 MiB of floats: a segment of its own.
NODES, REPLAYS, PAUSE_S, LIMIT_S = 100, 5, 0.06, 20
MODES = ("global", "thread_local", "relaxed")
LOCATION_GPU, LOCATION_HOST, SCOPE_ATTACHED = 0, 1, 1
SMALL_BYTES = 4 << 20


class Watchdog(threading.Thread):
    """Ends the process, with the stacks of all threads, once what is under way takes too long."""

    def __init__(self):
        super().__init__(daemon=True)
        self.what, self.deadline = "start", time.monotonic() + 120

    def begin(self, what, limit_s=LIMIT_S):
        self.what, self.deadline = what, time.monotonic() + limit_s

    def run(self):
        while True:
            time.sleep(0.5)
            if time.monotonic() > self.deadline:
                print(f"FAILED: {self.what} stands for too long", flush=True)
                faulthandler.dump_traceback(all_threads=True)
                os._exit(1)


class Company:
    """Threads that each do one thing over and over. What the runtime refuses is counted by its text."""

    def __init__(self):
        self.stopping, self.threads = False, []
        self.done, self.refused = collections.Counter(), collections.Counter()

    def add(self, name, step):
        def loop():
            while not self.stopping:
                try:
                    self.done[name] += step() is not False
                except RuntimeError as error:
                    self.refused[f"{name}: {str(error)[:110]}"] += 1

        self.threads.append(threading.Thread(target=loop, name=name, daemon=True))
        self.threads[-1].start()

    def names(self):
        return [thread.name for thread in self.threads]

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


class Options(ctypes.Structure):  # vmart_migrate_options
    _fields_ = [("size_bytes", ctypes.c_size_t), ("mode", ctypes.c_int32),
                ("scope", ctypes.c_int32), ("deadline_ms", ctypes.c_int64)] + [
                    (name, ctypes.c_int32) for name in ("priority", "reserve_first", "nothing_runs",
                                                        "wait_for_pins", "paranoid", "reserved")]


def alloc(vmart, size_bytes, tag=None):
    pointer = ctypes.c_void_p()
    at, size = Place(LOCATION_GPU, 0), ctypes.c_size_t(size_bytes)
    if tag is None:
        vmart.call("vmart_alloc", size, at, ctypes.byref(pointer))
    else:
        vmart.call("vmart_alloc_tagged", size, at, tag, ctypes.byref(pointer))
    return pointer


def keep_company(torch, vmart, company, captured, moved):
    handle = ctypes.c_void_p(captured.cuda_stream)
    several = torch.cuda.device_count() > 1
    places = [Place(LOCATION_GPU, 0), Place(LOCATION_GPU, 1) if several else Place(LOCATION_HOST, 0)]

    def move():
        places.reverse()
        migration, none = ctypes.c_void_p(), ctypes.c_size_t(0)
        vmart.call("vmart_migrate_async", ctypes.c_void_p(moved.data_ptr()), none, none, places[0], None,
                   ctypes.byref(migration))
        vmart.wait(migration)

    def attach_and_detach():
        vmart.call("vmart_attach", handle)
        vmart.call("vmart_detach", handle)

    def free():
        vmart.call("vmart_free", alloc(vmart, SMALL_BYTES))

    company.add("move", move)
    company.add("attach", attach_and_detach)
    company.add("free", free)
    alloc(vmart, SMALL_BYTES, b"parked")  # Never freed: the process ends with it.
    attached = Options(ctypes.sizeof(Options), scope=SCOPE_ATTACHED)  # A hold would end captures.

    def park():
        for name in ("vmart_park", "vmart_resume"):
            vmart.call(name, b"parked", ctypes.byref(attached), None, None)

    company.add("park", park)
    if not several:
        return
    followed, at = alloc(vmart, SMALL_BYTES), Place()

    def follow():
        """One move by the policy, after a user that changes GPUs."""
        vmart.call("vmart_where", followed, ctypes.byref(at))
        user = 1 - at.ordinal
        while at.ordinal != user:
            if company.stopping:
                return False
            vmart.library.vmart_record_use(followed, ctypes.c_size_t(SMALL_BYTES), user, 0)
            time.sleep(0.001)  # The pace of a program.
            vmart.call("vmart_where", followed, ctypes.byref(at))
        return True

    company.add("policy", follow)


def capture(torch, stream, mode, number):
    """False: somebody ended it."""
    operand = torch.full((1024,), float(number), device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode=mode):
            result = operand
            for _ in range(NODES):
                result = result + 1
                time.sleep(0)  # Lets other threads in.
    except RuntimeError as error:
        print(f"  capture {number} ({mode}): {str(error).splitlines()[0]}", flush=True)
        return False
    for _ in range(REPLAYS):  # Moves wait for the end of a capture, and happen now.
        graph.replay()
        time.sleep(PAUSE_S / REPLAYS)
    torch.cuda.synchronize()
    if not bool((result == number + NODES).all()):
        raise AssertionError(f"the replay of capture {number} has another result")
    return True


def main(library, examples, count="200"):
    faulthandler.enable()
    os.environ.setdefault("VMART_POLICY", "counter:theta=0.01")  # Moves memory soon after its user changes.
    sys.path.insert(0, examples)
    import torch_pool  # Before torch: it sets what torch reads once.

    torch = torch_pool.torch
    if torch is None or torch.cuda.device_count() < 1:
        print("skipped: this needs PyTorch and a GPU")
        return torch_pool.EXIT_SKIPPED
    watchdog = Watchdog()
    watchdog.start()
    torch.zeros(1, device="cuda")
    vmart = torch_pool.Vmart(library)
    with torch.cuda.use_mem_pool(vmart.pool):
        moved = torch.arange(WORDS, dtype=torch.float32, device="cuda")
    captured, idle = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    vmart.attach(idle)
    vmart.call("vmart_attach_to", ctypes.c_void_p(captured.cuda_stream),
               ctypes.c_void_p(moved.data_ptr()))
    company, ended = Company(), collections.Counter()
    keep_company(torch, vmart, company, captured, moved)
    for mode in MODES:
        begun, before = time.monotonic(), company.done.copy()
        for number in range(int(count)):
            watchdog.begin(f"capture {number} ({mode})")
            ended[mode] += 0 if capture(torch, captured, mode, number) else 1
        beside = ", ".join(f"{company.done[name] - before[name]} x {name}" for name in company.done)
        print(f"{mode}: {ended[mode]} of {count} captures ended, {time.monotonic() - begun:.1f} s, "
              f"beside {beside}", flush=True)
    watchdog.begin("the end", 60)
    company.stop()
    for text, times in company.refused.most_common(8):
        print(f"  refused {times} times: {text}")
    vmart.call("vmart_detach_from", ctypes.c_void_p(captured.cuda_stream),
               ctypes.c_void_p(moved.data_ptr()))
    wanted = torch.arange(WORDS, dtype=torch.float32, device="cuda")
    whole = bool(torch.equal(moved, wanted))
    if not whole:
        print("FAILED: what moved beside the captures has other bytes")
    lazy = [name for name in company.names() if company.done[name] == 0]
    if lazy:
        print(f"FAILED: nothing was done beside the captures: {', '.join(lazy)}")
    vmart.detach(idle)
    return 1 if sum(ended.values()) or not whole or lazy else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
