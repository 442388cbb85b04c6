"""What vLLM 0.33.0's GPU worker and its tests do around sleep mode, call for call, without the model: the
pools it enters, in its order, what it saves before a level 2, and its engine's rules.

`vllm_test.py` runs it on a simulated machine, `tests/gpu/vllm_package.py` on a GPU. `memory` makes, fills
and reads tensors there.
"""

import types

MIB = 1 << 20
WEIGHTS, KV_CACHE, STATE, SCRATCH, BUFFER = 24 * MIB, 32 * MIB, 12 * MIB, 16 * MIB, 20 * MIB
ALL = WEIGHTS + KV_CACHE + STATE + SCRATCH + BUFFER


class Worker:
    """Of the class `Worker` in vllm/v1/worker/gpu_worker.py; `executor` rules as in
    vllm/v1/executor/abstract.py."""

    def __init__(self, memory, device_allocator, factory, backend="vmart"):
        self.memory = memory
        self.instance = device_allocator.get_mem_allocator_instance
        self.factory = factory
        self.config = types.SimpleNamespace(sleep_mode_backend=backend)
        self._backend = None
        self.sleeping_tags = set()
        self._saved = None

    @property
    def backend(self):  # Made at the first sleep.
        if self._backend is None:
            self._backend = self.factory.create_backend(self.config)
        return self._backend

    def pool(self, tag):
        allocator = self.instance()
        if tag == "weights":
            assert allocator.get_current_usage() == 0, "one instance a process"
        return allocator.use_memory_pool(tag=tag)

    def start(self):
        """load_model, initialize_from_config, and a workspace that grows in the warm-up."""
        with self.pool("weights"):
            high_precision = self.memory.make(2 * WEIGHTS)  # Quantized while loading.
            self.weights, self.buffer = self.memory.make(WEIGHTS), self.memory.make(BUFFER)
            del high_precision
        with self.pool("runtime"):
            self.state = self.memory.make(STATE)
            with self.pool("kv_cache"):
                self.kv_cache = self.memory.make(KV_CACHE)
        with self.pool("workspace"):
            self.scratch = self.memory.make(SCRATCH // 2)
        with self.pool("workspace"):
            self.scratch = self.memory.make(SCRATCH)
        self.reload()
        self.memory.fill(self.state, 3)
        return self

    def reload(self):
        self.memory.fill(self.weights, 1)

    def fill_buffer(self):
        self.memory.fill(self.buffer, 2)

    def pointers(self):
        return [self.memory.pointer(each) for each in self.tensors()]

    def tensors(self):
        return [self.weights, self.buffer, self.state, self.kv_cache, self.scratch]

    def sleep(self, level=1):
        """Returns the bytes that the GPU has more free than before."""
        assert "weights" not in self.sleeping_tags
        before = self.memory.free_bytes()
        if level == 2:
            self._saved = self.memory.byte(self.buffer)
        self.backend.suspend(level)
        freed = self.memory.free_bytes() - before
        assert freed >= 0, "Memory usage increased after sleeping."
        self.sleeping_tags |= {"weights", "kv_cache"}
        return freed

    def wake_up(self, tags=None):
        assert self.sleeping_tags and set(tags or ()) <= self.sleeping_tags
        self.backend.resume(tags)
        if (tags is None or "weights" in tags) and self._saved is not None:
            self.memory.fill(self.buffer, self._saved)
            self._saved = None
        self.sleeping_tags -= set(self.sleeping_tags if tags is None else tags)

    def release_kv_cache(self):
        assert not self.sleeping_tags
        try:
            self.backend.discard(("kv_cache",))
        finally:
            self.sleeping_tags |= {"kv_cache"}

    def check(self):
        """What a generation would read."""
        read = [self.memory.byte(each) for each in (self.weights, self.buffer, self.state)]
        assert read == [1, 2, 3], read
        for each in (self.kv_cache, self.scratch):  # Nobody relies on their bytes.
            self.memory.fill(each, 4)
            assert self.memory.byte(each) == 4

    def shutdown(self):
        del self.weights, self.buffer, self.state, self.kv_cache, self.scratch
        self.instance().release_pools()
