#!/usr/bin/env python3
"""Moves beside captures of PyTorch's, and before replays: no capture is ended by a move of other
memory, and a graph finds its operand wherever that has gone.

torch_graph.py LIBVMART.SO EXAMPLES     leaves with 77 without PyTorch and two GPUs
"""

import ctypes
import sys
import threading

WORDS = 4 << 20  # 16 MiB of floats: a segment of its own.
CAPTURES, MOVES_BESIDE_EACH, NODES = 20, 3, 200


class MovesBeside(threading.Thread):
    """Sends a tensor to and fro until it is stopped."""

    def __init__(self, vmart, tensor):
        super().__init__()
        self.vmart, self.tensor = vmart, tensor
        self.moves, self.failure, self.stopping = 0, None, False
        self.moved = threading.Condition()

    def run(self):
        try:
            while not self.stopping:
                self.vmart.wait(self.vmart.start_move(self.tensor, (self.moves + 1) % 2))
                with self.moved:
                    self.moves += 1
                    self.moved.notify_all()
        except RuntimeError as error:
            with self.moved:
                self.failure = error
                self.moved.notify_all()

    def wait_for_moves(self, count):
        with self.moved:
            enough = self.moves + count
            self.moved.wait_for(lambda: self.moves >= enough or self.failure)
        if self.failure:
            raise self.failure

    def stop(self):
        self.stopping = True
        self.join()


def captures_beside_moves(torch, vmart):
    with torch.cuda.use_mem_pool(vmart.pool):
        other = torch.arange(WORDS, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    to_other = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p(other.data_ptr())
    vmart.call("vmart_attach_to", *to_other)
    beside = MovesBeside(vmart, other)
    beside.start()
    try:
        for number in range(CAPTURES):
            operand = torch.full((1024,), float(number), device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # Throws if anything ends the capture.
                result = operand
                for _ in range(NODES):
                    result = result + 1
                beside.wait_for_moves(MOVES_BESIDE_EACH)
                result = result * 2
            graph.replay()
            assert bool((result == (number + NODES) * 2).all()), "a replay has another result"
    finally:
        beside.stop()
    vmart.call("vmart_detach_from", *to_other)
    wanted = torch.arange(WORDS, dtype=torch.float32, device="cuda")
    assert torch.equal(other, wanted), "what moved beside the captures has other bytes"
    print(f"{CAPTURES} captures whole beside {beside.moves} moves")


def replays_after_moves(torch, vmart):
    with torch.cuda.use_mem_pool(vmart.pool):
        operand = torch.zeros(WORDS, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = operand * 2
    stream = torch.cuda.current_stream()
    vmart.attach(stream)
    for number in range(10):
        operand.fill_(number)
        vmart.wait(vmart.start_move(operand, (number + 1) % 2))
        assert vmart.where(operand) == f"gpu({(number + 1) % 2})"
        graph.replay()
        assert bool((result == number * 2).all()), f"replay {number} has another result"
    vmart.detach(stream)
    print("10 replays right after moves of what they read")


def main(library, examples):
    sys.path.insert(0, examples)
    import torch_pool  # Before torch: it sets what torch reads once.

    torch = torch_pool.torch
    if torch is None or torch.cuda.device_count() < 2:
        print("skipped: this needs PyTorch and two GPUs")
        return torch_pool.EXIT_SKIPPED
    torch.zeros(1, device="cuda")
    vmart = torch_pool.Vmart(library)
    captures_beside_moves(torch, vmart)
    replays_after_moves(torch, vmart)
    vmart.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
