#!/usr/bin/env python3
"""Two processes sum with NCCL in buffers that they have registered with it, while the memory of these
moves to the other GPU, to host memory and back. Hooks remove a registration before each move and make it
again afterwards. Then the same without hooks, which shows what they are for.

nccl_registered.py LIBVMART.SO EXAMPLES     needs PyTorch with NCCL and two GPUs; leaves with 77 where they are not
"""

import ctypes
import glob
import multiprocessing
import os
import sys
import tempfile

EXIT_SKIPPED, LIMIT_S = 77, 120
COUNT = 16 << 20  # Floats: 64 MiB, one chunk.
GPU, HOST = 0, 1
BEGINS, DONE = 0, 1  # Phases of a vmart_move_event.
FLOAT32, SUM = 7, 0  # ncclDataType_t, ncclRedOp_t.
OWN, OTHER = "its own GPU", "the other GPU"
MOVES = [(OTHER, "held"), ("host memory", "held"), (OWN, "held"), (OTHER, "live"), (OWN, "live")]

try:
    import torch
    nccl = ctypes.CDLL("libnccl.so.2") if torch.cuda.device_count() > 1 else None
except (ImportError, OSError):
    nccl = None


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("ordinal", ctypes.c_int)]


class MoveEvent(ctypes.Structure):
    _fields_ = [("size_bytes", ctypes.c_size_t), ("pointer", ctypes.c_void_p), ("offset", ctypes.c_size_t),
                ("bytes", ctypes.c_size_t), ("source", Place), ("target", Place),
                ("generation", ctypes.c_uint64), ("phase", ctypes.c_int32), ("done", ctypes.c_int32)]


MoveCallback = ctypes.CFUNCTYPE(None, ctypes.POINTER(MoveEvent), ctypes.c_void_p)


def require(status, what):
    if status != 0:
        raise RuntimeError(f"{what} failed with status {status}")


class Buffer:
    """Memory of vmart that is registered with NCCL wherever it lies."""

    def __init__(self, vmart, comm, stream, rank, follow_moves):
        self.vmart, self.comm, self.stream, self.rank = vmart, comm, stream, rank
        self.pointer, self.hook, self.handle = (ctypes.c_void_p() for _ in range(3))
        self.moving, self.bytes = 0, ctypes.c_size_t(4 * COUNT)
        require(vmart.vmart_alloc(self.bytes, Place(GPU, rank), ctypes.byref(self.pointer)), "vmart_alloc")
        self.callback = MoveCallback(self.follow)  # Lives as long as the hook.
        if follow_moves:
            require(vmart.vmart_note_export(self.pointer), "vmart_note_export")  # It stays until the hook exists.
        self.register()
        if follow_moves:
            require(vmart.vmart_move_hook_create(self.pointer, self.callback, None, ctypes.byref(self.hook)), "hook")

    def register(self):
        require(nccl.ncclCommRegister(self.comm, self.pointer, self.bytes, ctypes.byref(self.handle)),
                "ncclCommRegister")

    def deregister(self):
        require(nccl.ncclCommDeregister(self.comm, self.handle), "ncclCommDeregister")
        self.handle = ctypes.c_void_p()  # NCCL ignores null.

    def follow(self, pointer, _user):
        """NCCL registers a buffer as a whole: it is registered while none of its chunks moves."""
        event = pointer.contents
        torch.cuda.set_device(self.rank)  # The thread may be one of vmart's.
        if event.phase == BEGINS:
            self.stream.synchronize()  # What was enqueued uses the registration.
            if self.moving == 0:
                self.deregister()
            self.moving += 1
        else:
            self.moving -= 1
            lies = event.target if event.phase == DONE else event.source
            if self.moving == 0 and lies.kind == GPU:  # NCCL registers no host memory.
                self.register()
        event.done = 1

    def move(self, to, how):
        place = Place(HOST, 0) if to == "host memory" else Place(GPU, self.rank ^ (to == OTHER))
        whole = self.pointer, ctypes.c_size_t(0), self.bytes, place, None
        if how == "held":
            return require(self.vmart.vmart_migrate(*whole), "vmart_migrate")
        migration = ctypes.c_void_p()
        require(self.vmart.vmart_migrate_async(*whole, ctypes.byref(migration)), "vmart_migrate_async")
        require(self.vmart.vmart_migration_wait(migration), "the migration")
        self.vmart.vmart_migration_release(migration)

    def close(self):
        self.vmart.vmart_move_hook_release(self.hook)
        self.deregister()
        require(self.vmart.vmart_free(self.pointer), "vmart_free")


def run_rank(library, rank, moves, follow_moves, ids, barrier, results):
    torch.cuda.set_device(rank)
    vmart, unique, comm, stream = ctypes.CDLL(library), UniqueId(), ctypes.c_void_p(), torch.cuda.Stream()
    if rank == 0:
        require(nccl.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
        ids.put(bytes(unique))
    else:
        unique = UniqueId.from_buffer_copy(ids.get(timeout=LIMIT_S))
    require(nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, rank), "ncclCommInitRank")
    require(vmart.vmart_attach(ctypes.c_void_p(stream.cuda_stream)), "vmart_attach")
    buffers = source, target = [Buffer(vmart, comm, stream, rank, follow_moves) for _ in range(2)]
    numbers = torch.arange(COUNT, dtype=torch.float32) % 1000

    def wrong_sums(step):
        mine, zeros = (numbers + step) * (rank + 1), torch.zeros(COUNT)
        for buffer, values in ((source, mine), (target, zeros)):
            require(vmart.vmart_write(buffer.pointer, ctypes.c_void_p(values.data_ptr()), buffer.bytes), "write")
        barrier.wait(LIMIT_S)
        require(nccl.ncclAllReduce(source.pointer, target.pointer, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm,
                                   ctypes.c_void_p(stream.cuda_stream)), "ncclAllReduce")
        stream.synchronize()
        require(vmart.vmart_read(target.pointer, ctypes.c_void_p(zeros.data_ptr()), target.bytes), "read")
        return int((zeros != (numbers + step) * 3).sum())

    for step, (to, how) in enumerate([("where it was allocated", "held")] + moves):
        if step > 0:
            barrier.wait(LIMIT_S)  # All ranks register a buffer, or none does: so they move together.
            for buffer in buffers:
                buffer.move(to, how)
        barrier.wait(LIMIT_S)
        results.put((step, rank, wrong_sums(step), registrations(rank)))
    for buffer in buffers:
        buffer.close()
    barrier.wait(LIMIT_S)  # To close a registration takes the other rank.
    require(vmart.vmart_detach(ctypes.c_void_p(stream.cuda_stream)), "vmart_detach")
    require(nccl.ncclCommDestroy(comm), "ncclCommDestroy")


def registrations(rank):
    """How often NCCL has made a buffer of this rank known to the other one, by its own log."""
    logs = glob.glob(os.path.join(os.path.dirname(os.environ["NCCL_DEBUG_FILE"]), "*"))
    return sum(open(log, encoding="utf-8").read().count(f"rank {rank} - IPC register buffer") for log in logs)


def run(library, moves, follow_moves):
    """(step, rank, wrong sums, registrations) of each step, and whether all processes ended well."""
    context = multiprocessing.get_context("spawn")
    ids, results, barrier = context.Queue(), context.Queue(), context.Barrier(2)
    with tempfile.TemporaryDirectory() as logs:
        os.environ["NCCL_DEBUG_FILE"] = os.path.join(logs, "%h.%p")
        ranks = [context.Process(target=run_rank, args=(library, rank, moves, follow_moves, ids, barrier, results))
                 for rank in range(2)]
        for process in ranks:
            process.start()
        told = []
        try:
            for _ in range(2 * (1 + len(moves))):
                told.append(results.get(timeout=LIMIT_S))
        except Exception:  # queue.Empty
            pass
        for process in ranks:
            process.join(LIMIT_S if len(told) == 2 * (1 + len(moves)) else 1)
            process.kill()
        return sorted(told), all(process.exitcode == 0 for process in ranks)


def main(library):
    if nccl is None or not torch.cuda.can_device_access_peer(0, 1):
        print("SKIPPED: this needs PyTorch with NCCL and two GPUs that reach each other")
        return EXIT_SKIPPED
    os.environ.update(VMART_EXPORTABLE="fd", NCCL_NVLS_ENABLE="0", NCCL_ALGO="Ring", NCCL_PROTO="Simple",
                      NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="REG")
    told, ended_well = run(library, MOVES, True)
    if not ended_well:
        print("a rank failed or hung")
        return 1
    before = [0, 0]
    for step, rank, wrong, count in told:
        to, how = (("", "allocated"), *MOVES)[step]
        fresh, before[rank] = count - before[rank], count
        print(f"rank {rank}, {how}{' to ' * bool(to)}{to}: {wrong} of {COUNT} sums are wrong; registered {fresh} times")
        if step == 0 and fresh == 0:
            print("SKIPPED: this NCCL does not use the registration")
            return EXIT_SKIPPED
        if wrong != 0 or (fresh == 0 and to != "host memory"):
            return 1
    stale, ended_well = run(library, MOVES[:1], False)
    before = [wrong for step, _, wrong, _ in stale if step == 0]
    after = [wrong for step, _, wrong, _ in stale if step == 1]
    print(f"without hooks: {before} sums are wrong before the move, {after} after it"
          f"{'' if ended_well else '; a rank failed or hung'}")
    return 0 if before == [0, 0] and (any(after) or not ended_well) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
