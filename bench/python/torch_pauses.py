#!/usr/bin/env python3
"""Pause and resume of torch memory by torch_memory_saver and by vmart.torch.memory_saver, in turns.

    torch_pauses.py [--gib 8] [--tensors 1] [--repeats 5] [--rounds 2] [--real FOLDER] [--json FILE]

Each case has a process of its own in each round. Bytes are compared after each resume that should bring them back.

    backup        with a copy at the host. vmart keeps the host memory between pauses, since VMART_HOST_CACHE_BYTES is that large
    small cache   the same, with the default of VMART_HOST_CACHE_BYTES
    mmap          the same by torch_memory_saver's other backend
    retained      the copies stay at the host while the tensors are in HBM (retain_cpu_backup)
    dropped       without a copy

Times are medians of all repeats but the first of each process, which also allocates: its median is in the column "first". The
bar: with a backup, vmart's pause is 10 times and its resume 4 times as fast as torch_memory_saver's. FOLDER holds an
installed torch_memory_saver, if Python does not find it. Leaves with 77 without PyTorch, a GPU and the packages of the cases.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.programs import parser_of, skip

GIB = 1 << 30
BARS = {"pause": 10.0, "resume": 4.0}
# Whose, the options of its region, whether copies are retained.
CASES = {
    "real backup": ("torch_memory_saver", {"enable_cpu_backup": True}, False),
    "vmart backup": ("vmart.torch.memory_saver", {"enable_cpu_backup": True}, False),
    "real mmap": ("torch_memory_saver", {"enable_cpu_backup": True, "cpu_backup_backend": "mmap"}, False),
    "vmart small cache": ("vmart.torch.memory_saver", {"enable_cpu_backup": True}, False),
    "real retained": ("torch_memory_saver", {"enable_cpu_backup": True}, True),
    "vmart retained": ("vmart.torch.memory_saver", {"enable_cpu_backup": True}, True),
    "real dropped": ("torch_memory_saver", {}, False),
    "vmart dropped": ("vmart.torch.memory_saver", {}, False),
}
INSTALLS = {"torch": "type: pip install torch", "vmart": "build with -DVMART_BUILD_PYTHON=ON, or type: pip install .",
            "torch_memory_saver": "type: pip install torch-memory-saver"}
PAIRS = (("real backup", "vmart backup"), ("real mmap", "vmart backup"), ("real backup", "vmart small cache"),
         ("real retained", "vmart retained"), ("real dropped", "vmart dropped"))


def measure(case, gib, tensors, repeats):
    """Prints the times of one process as JSON."""
    import torch

    module, options, retained = CASES[case]
    saver = importlib.import_module(module).torch_memory_saver
    saver.hook_mode = "torch"
    count = int(gib * GIB) // tensors // 8
    with saver.region(tag="measured", **options):
        made = [torch.empty(count, dtype=torch.int64, device="cuda") for _ in range(tensors)]
    for number, tensor in enumerate(made):
        torch.arange(number, number + count, out=tensor)
    if retained:
        saver.retain_cpu_backup = True
    times = []
    for _ in range(repeats):
        for tensor in made:  # Written, as far as anybody can tell.
            tensor.add_(0)
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        begin = time.perf_counter()
        saver.pause("measured")
        paused = time.perf_counter()
        freed = torch.cuda.mem_get_info()[0] - free
        resuming = time.perf_counter()
        saver.resume("measured")
        torch.cuda.synchronize()
        end = time.perf_counter()
        if options and not all(whole(torch, number, tensor) for number, tensor in enumerate(made)):
            sys.exit(f"{case}: the bytes have changed")
        if freed < 0.9 * gib * GIB:
            sys.exit(f"{case}: the pause freed {freed / GIB:.2f} GiB of {gib}")
        times.append({"pause": paused - begin, "resume": end - resuming})
    print(json.dumps(times), flush=True)
    os._exit(0)  # torch_memory_saver ends the process with 1 when its tensors go.


def whole(torch, number, tensor):
    """Whether it has its bytes, by parts: a comparison of the whole would need as much memory again."""
    part = 1 << 24
    return all(
        torch.equal(tensor[begin : begin + part],
                    torch.arange(number + begin, number + min(begin + part, len(tensor)), device="cuda"))
        for begin in range(0, len(tensor), part)
    )  # fmt: skip


def run(case, given):
    environment = dict(os.environ)
    if given.real:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [given.real, environment.get("PYTHONPATH")]))
    if case != "vmart small cache":
        environment["VMART_HOST_CACHE_BYTES"] = f"{int(given.gib) + 1}G"
    command = [sys.executable, "-B", __file__, "--case", case, "--gib", str(given.gib), "--tensors", str(given.tensors),
               "--repeats", str(given.repeats)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        print(f"{case}: exit status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}", flush=True)
        return []
    return json.loads(done.stdout.splitlines()[-1])


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5, help="in each process")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each case")
    parser.add_argument("--real", type=lambda path: str(pathlib.Path(path).resolve()), help="where torch_memory_saver is installed")
    parser.add_argument("--json", type=pathlib.Path, help="all times, as a file")
    parser.add_argument("--only", help="some of the cases, separated by commas")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)  # In a child.
    return parser.parse_args()


def cases_of(given):
    return [case for case in CASES if given.only is None or case in given.only.split(",")]


def missing(given):
    if given.real:
        sys.path.insert(1, given.real)
    for module in ("torch", *sorted({CASES[case][0].partition(".")[0] for case in cases_of(given)})):
        if importlib.util.find_spec(module) is None:
            return f"Python has no {module}; {INSTALLS[module]}"
    import torch

    return None if torch.cuda.is_available() else "PyTorch finds no GPU"


def report(times, given):
    """Prints the tables."""
    print(f"{given.gib:g} GiB in {given.tensors} tensors, ms: median, of how many, range; and of first repeats")
    medians = {}
    for case, runs in times.items():
        medians[case] = {}
        for verb in BARS:
            later = [each[verb] * 1e3 for repeats in runs for each in repeats[1:]]
            first = [repeats[0][verb] * 1e3 for repeats in runs if repeats]
            if not later:
                print(f"{case:18} {verb:7} failed")
                continue
            medians[case][verb] = median = statistics.median(later)
            print(f"{case:18} {verb:7} {median:9.1f}  ({len(later)}: {min(later):.1f} to {max(later):.1f})  "
                  f"{given.gib * GIB / median / 1e6:7.1f} GB/s  first {statistics.median(first):9.1f}")
    for theirs, ours in PAIRS:
        if medians.get(theirs) and medians.get(ours):
            ratios = {verb: medians[theirs][verb] / medians[ours][verb] for verb in BARS}
            both = sum(medians[theirs].values()) / sum(medians[ours].values())
            print(f"{ours} against {theirs}: pause {ratios['pause']:.1f}x, resume {ratios['resume']:.1f}x, both {both:.1f}x"
                  + told(ratios, theirs == "real backup" and ours == "vmart backup"))


def told(ratios, is_the_bar):
    if not is_the_bar:
        return ""
    return "; the bar: " + ", ".join(f"{verb} >= {bar:g}x {'met' if ratios[verb] >= bar else 'NOT met'}" for verb, bar in BARS.items())


def main():
    given = parse_arguments()
    if given.case:
        measure(given.case, given.gib, given.tensors, given.repeats)
        return 0
    why = missing(given)
    if why:
        return skip(why)
    import torch

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    cases = cases_of(given)
    times = {case: [] for case in cases}
    for _ in range(given.rounds):
        for case in cases:
            times[case].append(run(case, given))
    report(times, given)
    if given.json:
        given.json.write_text(json.dumps(times), encoding="utf-8")
    return 0 if all(repeats for runs in times.values() for repeats in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
