"""NCCL in one process with two GPUs, called as C programs call it, on whole numbers."""

import ctypes

import torch

import rounds

COUNT, GPUS = 8 << 20, 2  # Floats: 32 MiB.
FLOAT32, SUM, MAX = 7, 0, 2  # ncclDataType_t, ncclRedOp_t.


class Nccl:
    def __init__(self):
        torch.cuda.nccl.version()  # PyTorch has loaded the library.
        self.library = ctypes.CDLL("libnccl.so.2")
        self.communicators = (ctypes.c_void_p * GPUS)()
        self.call("ncclCommInitAll", self.communicators, GPUS, (ctypes.c_int * GPUS)(*range(GPUS)))

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} returned {result}")

    def all_reduce(self, buffers, streams, operation):
        self.call("ncclGroupStart")
        for gpu in range(GPUS):
            pointer = ctypes.c_void_p(buffers[gpu].data_ptr())
            self.call("ncclAllReduce", pointer, pointer, ctypes.c_size_t(COUNT), FLOAT32, operation,
                      ctypes.c_void_p(self.communicators[gpu]),
                      ctypes.c_void_p(streams[gpu].cuda_stream))
        self.call("ncclGroupEnd")


def one_round(nccl, streams):
    buffers = []
    for gpu in range(GPUS):
        with torch.cuda.device(gpu), torch.cuda.stream(streams[gpu]):
            buffers.append(torch.arange(COUNT, device="cuda", dtype=torch.float32) % 1000 + gpu)
    for step in range(6):
        nccl.all_reduce(buffers, streams, MAX if step % 3 == 2 else SUM)
        for gpu in range(GPUS):
            with torch.cuda.device(gpu), torch.cuda.stream(streams[gpu]):
                buffers[gpu].remainder_(1000).add_(gpu)
    for stream in streams:
        stream.synchronize()
    return " ".join(rounds.digest(buffer) for buffer in buffers)


for gpu in range(GPUS):
    torch.zeros(1, device=f"cuda:{gpu}")
NCCL = Nccl()
STREAMS = [torch.cuda.Stream(gpu) for gpu in range(GPUS)]
rounds.repeat(lambda: one_round(NCCL, STREAMS))
for communicator in NCCL.communicators:
    NCCL.call("ncclCommDestroy", ctypes.c_void_p(communicator))
