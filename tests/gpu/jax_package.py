#!/usr/bin/env python3
"""JAX arrays over memory of vmart with real GPUs: a compiled step reads weights that move between its calls, to the
other GPU, to the host and back. The results are those of the same steps on JAX's own memory, to the last bit.

Leaves with 77 without the package, JAX with CUDA and two GPUs.
"""

import os
import random
import sys

EXIT_SKIPPED = 77
ROUNDS, SIDE = 100, 2048
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def results(jax, weights, before_step):
    """Of each step, on the GPU of the weights."""
    step = jax.jit(lambda values, x: jax.numpy.tanh(values @ x))
    x = jax.numpy.eye(SIDE, dtype="float32")
    seen = []
    for _ in range(ROUNDS):
        before_step()
        x = step(weights, x)
        x.block_until_ready()
        seen.append(x)
    return seen


def moves_between_steps(jax, numpy, vmart, choice):
    values = numpy.random.default_rng(7).standard_normal((SIDE, SIDE), dtype="float32") / SIDE
    own = results(jax, jax.device_put(values, jax.devices()[0]), lambda: None)
    memory = vmart.empty((SIDE, SIDE), "float32", at="gpu0", tag="weights")
    memory.allocation.write(values)
    weights = jax.dlpack.from_dlpack(memory)
    address = weights.unsafe_buffer_pointer()
    places = set()

    def move():
        vmart.migrate(weights, choice.choice(["gpu0", "gpu1", "host0"]))
        places.update(str(extent.at) for extent in vmart.where(weights))

    moving = results(jax, weights, move)
    for number, (mine, others) in enumerate(zip(moving, own)):
        assert (numpy.asarray(mine) == numpy.asarray(others)).all(), f"step {number} differs"
    assert weights.unsafe_buffer_pointer() == address
    assert places == {"gpu(0)", "gpu(1)", "host(0)"}, places


def main():
    try:
        import jax
        import numpy

        import vmart
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return EXIT_SKIPPED
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if len(gpus) < 2:
        print(f"SKIPPED: needs JAX with CUDA and 2 GPUs, has {jax.devices()}")
        return EXIT_SKIPPED
    moves_between_steps(jax, numpy, vmart, random.Random(7))
    print(jax.__version__, ROUNDS, "steps equal,", vmart.stats().migrations, "moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
