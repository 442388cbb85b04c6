#!/usr/bin/env python3
"""A training step of a transformer, repeated, whose optimizer states lie at other places than the GPU
that trains: half at a peer, half at the host, until a policy (VMART_POLICY) brings them.

    torch_training.py LIBVMART.SO [--steps 120] [--layers 5] [--local]

Weights and states lie in a MemPool of vmart's; each step reports what it uses (`vmart_record_use`), to
be recorded (VMART_RECORD) and predicted. With --local the states lie at the GPU from the beginning: the
same steps with all memory where access is fast. The step ends when the loss is on the host, as where
it is printed. Prints one line of JSON. Leaves with 77 without PyTorch and two GPUs.
"""

import ctypes
import gc
import json
import pathlib
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import parser_of, skip
from harness.vmart_calls import GPU, HOST, Place, allocations_of, move_many, torch_pool

torch = torch_pool.torch
READ, READ_WRITE = 0, 2  # VMART_USE_READ, VMART_USE_READ_WRITE
WARM_STEPS = 3  # Without reports: cuBLAS chooses, and the states are made.


class Uses:
    """Reports the uses of tensors, once `on`."""

    def __init__(self, library):
        self.record_use, self.on = library.vmart_record_use, False
        self.record_use.restype = None
        self.record_use.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int32]
        self.count = 0

    def add(self, address, size_bytes, kind):
        if self.on:
            self.count += 1
            self.record_use(address, size_bytes, 0, kind)

    def tensors(self, tensors, kind):
        for tensor in tensors:
            self.add(tensor.data_ptr(), tensor.nbytes, kind)


def spread(vmart, states):
    """Moves the allocations of the tensors, by turns to the peer and to the host."""
    bases = allocations_of(vmart, states)
    ordered = list(bases)
    for part, kind, ordinal in ((ordered[::2], GPU, 1), (ordered[1::2], HOST, 0)):
        if part:
            move_many(vmart, part, Place(kind, ordinal))
    return sum(bases.values())


def make_model(layers, width, words):
    from harness.gpt_block import Block

    return torch.nn.Sequential(torch.nn.Embedding(words, width), *(Block(width, width // 128) for _ in range(layers)),
                               torch.nn.Linear(width, words))


def initialize(model):
    torch.manual_seed(1)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            torch.nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                torch.nn.init.zeros_(module.bias)


class Training:
    """One model, its optimizer and a batch."""

    def __init__(self, vmart, arguments):
        self.uses, self.pool = Uses(vmart.library), vmart.pool
        with torch.device("meta"):  # No time for initial values that a processor makes.
            model = make_model(arguments.layers, arguments.width, arguments.words)
        with torch.cuda.use_mem_pool(self.pool):
            self.model = model.to(torch.bfloat16).to_empty(device="cuda")
        initialize(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.batch = torch.randint(arguments.words, (2, arguments.tokens + 1), device="cuda")
        uses = self.uses  # The hooks do not keep all of this.
        for part in self.model:  # A block uses its weights once forward and once backward.
            weights = list(part.parameters())
            part.register_forward_pre_hook(
                lambda _module, _inputs, weights=weights: uses.tensors(weights, READ))
            part.register_full_backward_pre_hook(
                lambda _module, _gradients, weights=weights: uses.tensors(weights, READ))

    def states(self):
        return [state[name] for state in self.optimizer.state.values()
                for name in ("exp_avg", "exp_avg_sq")]

    def step(self):
        """The loss."""
        logits = self.model(self.batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(),
                                                 self.batch[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for weight, state in self.optimizer.state.items():
            self.uses.tensors((weight, state["exp_avg"], state["exp_avg_sq"]), READ_WRITE)
        self.optimizer.step()
        return loss.item()

    def warm_up(self):
        with torch.cuda.use_mem_pool(self.pool):
            self.make_states()
        for _ in range(WARM_STEPS):
            self.step()
        torch.cuda.synchronize()

    def make_states(self):
        """In the pool, as nothing else that a step allocates."""
        for weight in self.model.parameters():
            self.optimizer.state[weight] = {
                "step": torch.zeros((), device="cuda", dtype=torch.float32),
                "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}


def run(vmart, arguments):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        training = Training(vmart, arguments)
        training.warm_up()
        vmart.attach(stream)
        state_bytes = 0 if arguments.local else spread(vmart, training.states())
        training.uses.on = True
        times, losses = [], []
        for _ in range(arguments.steps):
            begin = time.monotonic()
            losses.append(training.step())
            times.append(time.monotonic() - begin)
        training.uses.on = False
        torch.cuda.synchronize()
        vmart.detach(stream)
        found = {"seconds": sum(times), "first_step_s": times[0], "last_step_s": times[-1],
                 "step_s": times, "first_loss": losses[0], "last_loss": losses[-1],
                 "states_moved_bytes": state_bytes, "uses": training.uses.count}
        del training
        gc.collect()
    return found


def main():
    parser = parser_of(__doc__)
    parser.add_argument("library")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=3072)
    parser.add_argument("--tokens", type=int, default=1024, help="of each of two sequences")
    parser.add_argument("--words", type=int, default=16384)
    parser.add_argument("--local", action="store_true", help="leave the states at the GPU")
    arguments = parser.parse_args()
    if torch is None or torch.cuda.device_count() < 2:
        return skip("this needs PyTorch and two GPUs")
    torch.zeros(1, device="cuda")  # Makes GPU 0's primary context this thread's.
    vmart = torch_pool.Vmart(arguments.library)
    print(json.dumps(run(vmart, arguments)))
    vmart.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
