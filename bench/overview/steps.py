"""What `bench/run.py --summary` runs: for each row of docs/results/summary.md that a few minutes can measure, vmart and its
rivals, each in a process of its own with a time limit. `row` is the name of the row's function in docs/summary.py.

The limits of all steps add up to less than a quarter of an hour; a test holds them to it.
"""

import dataclasses

from overview import readings

GIB = 1 << 30
# Managed memory: a few GiB. More than fits can hang a GPU.
MANAGED_BYTES = 4 * GIB
VMART = "vmart"
SAVER = "torch_memory_saver"


@dataclasses.dataclass(frozen=True)
class Step:
    """`program`: of the build, or a script below bench/. Benchmarks take `pattern` as their filter. With `reads` it is
    none: {build} and {out} are replaced in its `arguments`, and `reads` makes entries of what it writes."""
    row: str
    way: str  # VMART, or the name of the rival.
    program: str
    limit_s: float
    pattern: str = ""
    arguments: tuple = ()
    reads: object = None
    gpus: int = 1
    settings: tuple = ()  # VARIABLE=value.
    module: str = ""  # Of Python, that has to be installed.
    install: str = ""  # What to type if it is not.

    def name(self):
        return f"{self.row}/{self.way}"


def bench(row, way, program, pattern, limit_s, **more):
    return Step(row, way, program, limit_s, pattern=f"^({pattern})/iterations", **more)


def rival_script(row, way, pattern, limit_s, repetitions=5):
    return Step(row, way, "rivals/one_gpu_rivals.py", limit_s, pattern=f"^({pattern})$",
                arguments=(f"--repetitions={repetitions}",))


def pauses(way, cases, limit_s, **more):
    return Step("pause", way, "python/torch_pauses.py", limit_s, reads=readings.of_pauses, module="torch", install="pip install torch",
                arguments=("--only", cases, "--rounds", "1", "--repeats", "4", "--json", "{out}"), **more)


def overhead(row, limit_s, gpus):
    """vmart and its rivals in one process, which takes them in turn."""
    return Step(row, VMART, "unmodified/run_overhead.py", limit_s, reads=readings.of_overhead, gpus=gpus, module="torch",
                install="pip install torch accelerate",
                arguments=("{build}", "--cases", readings.CASES_OF_ROWS[row], "--shapes", "8x128", "--measure-only", "--out", "{out}"))


def between_gpus(way, of_samples):
    return f"{way}/gpu0-gpu1/{of_samples}"


def with_host(way):  # Both directions.
    return f"{way}/(gpu0-host0|host0-gpu0)/4GiB"


SMALL_MANAGED = (f"VMART_BENCH_BYTES_MAX={MANAGED_BYTES}",)
# The short ones first, so that a budget that is too small leaves out few.
STEPS = (
    bench("allocation", VMART, "alloc_bench", "alloc_free/64MiB", 15),
    bench("allocation", "cudaMalloc", "cuda_malloc_rival", "(cuda_malloc|cu_mem_alloc)/plain/64MiB", 15),
    bench("pool", VMART, "pool_bench", "pool/(same|cross)_stream/threads1/1048576", 15),
    bench("pool", "cudaMallocAsync", "cuda_pool_rival", "cuda_pool/(same|cross)_stream/threads1/1048576", 20),
    bench("to_other_gpu", VMART, "migrate_bench", between_gpus("migrate/warm", "4GiB"), 15, gpus=2),
    bench("to_other_gpu", "raw copy", "raw_copy_rival", between_gpus("raw_copy", "4GiB"), 15, gpus=2),
    bench("to_other_gpu", "managed prefetch", "prefetch_rival", between_gpus("prefetch", "4GiB"), 20, gpus=2,
          settings=SMALL_MANAGED),
    bench("to_other_gpu", "naive remap", "naive_rival", between_gpus("naive/alone", "4GiB"), 15, gpus=2),
    bench("to_host", VMART, "migrate_bench", with_host("migrate/warm"), 20),
    bench("to_host", "raw copy", "raw_copy_rival", with_host("raw_copy"), 20),
    rival_script("to_host", "managed prefetch", with_host("prefetch"), 20),
    rival_script("to_host", "naive remap", with_host("naive"), 30),
    bench("stop_of_a_live_move", VMART, "live_bench", "live/size/live/(64MiB|16GiB)", 30, gpus=2,
          arguments=("--seconds=1",)),
    bench("stop_of_a_live_move", "stopped for the whole copy", "live_bench", "live/size/held/(64MiB|16GiB)", 30, gpus=2,
          arguments=("--seconds=1",)),
    bench("park", VMART, "park_bench", "park/(kept|undefined_largest)/8GiB", 35),
    rival_script("park", "naive remap", "naive_park/(kept|dropped)/8GiB", 30),
    rival_script("park", "the driver's checkpoint", "checkpoint_park/host/8GiB", 55, repetitions=3),
    rival_script("park", "the driver's checkpoint, custom storage", "checkpoint_park/custom/8GiB", 25, repetitions=3),
    pauses(VMART, "vmart backup,vmart dropped", 45),
    pauses(SAVER, "real backup,real dropped", 50),
    bench("drift", VMART, "placement_bench", "placement/drift/gpus2", 35, gpus=2, settings=SMALL_MANAGED,
          arguments=("--seconds=3",)),
    bench("drift", "managed memory", "managed_drift_rival", "managed/drift/gpus2", 35, gpus=2, settings=SMALL_MANAGED),
    overhead("standstill", 75, gpus=2),
    Step("training", VMART, "unmodified/timeline.py", 60, reads=readings.of_timeline, gpus=2, module="torch",
         install="pip install torch", arguments=("{build}", "--out", "{out}", "--between", "2")),
    overhead("beyond_hbm", 140, gpus=1),
)
