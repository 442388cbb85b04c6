"""The table of docs/results/study.md about slicing: bench/lab/slicing.py, for each trace with HBM for half of what lives,
on both machines. Standard library only."""

import json
import pathlib
import re
import subprocess
import sys

from harness.samples import table
from study_cells import StudyError

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT / "bench" / "traces"
MACHINES = ("h200x4", "pcie4x4")
GPUS = 4
POLICIES = ("cost_benefit", "auto")
WAYS = ("whole", "1 s", "0.05 s")
LINE = re.compile(r", ([^,]+): [\d.]+ s; (.*)$")


def vllm(model):
    return f"vLLM {model.removesuffix('-Instruct-2507')}", "llmservingsim", f"llmservingsim/{model}.vllm_requests.jsonl.gz", {"closed": 0}


def requests(name, what, file, count):
    return f"{name}, {count}" + (" requests" if name == "Azure" else ""), what, file, {"requests": count, "closed": 0}


ROWS = (requests("Azure", "azure", "azure/AzureLLMInferenceTrace_conv.csv.gz", 600),
        requests("Vidur", "vidur", "vidur/arxiv_summarization_lengths.csv.gz", 600),
        requests("Mooncake", "mooncake", "mooncake/conversation_trace.jsonl.gz", 40),
        *map(vllm, ("Llama-3.1-8B", "Qwen3-32B", "Qwen3-30B-A3B-Instruct-2507")),
        ("dlrm 2021", "dlrm", "dlrm/locality_stats_2021.txt.gz", {}),
        ("dlrm 2022", "dlrm", "dlrm/locality_stats_2022.txt.gz", {}))


def output_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StudyError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def ratios_in(text):
    """Of what slicing.py prints of one trace: by way of slicing and policy."""
    found = {}
    for line in text.splitlines():
        way, policies = LINE.search(line).groups()
        found[way] = {policy: float(ratio) for policy, ratio in (pair.split() for pair in policies.split("  "))}
    return found


def slicing_table(program, folder, rows=ROWS):
    """Throws StudyError if two policies change their order, as slicing.py says."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, how, file, parameters in rows:
        trace = folder / f"{how}-{len(lines)}.vtrace"
        values = [word for key, value in parameters.items() for word in ("--param", f"{key}={value}")]
        peak = json.loads(output_of([program, "convert", how, TRACES / file, trace, *values, "--json"]))["bytes_live_max"]
        line = [name]
        for machine in MACHINES:
            print(f"slicing: {name} on {machine}", file=sys.stderr, flush=True)
            ratios = ratios_in(output_of([sys.executable, "-B", ROOT / "bench/lab/slicing.py", program, trace, "--machine",
                                          machine, "--hbm", peak / 2 / GPUS / 2**30]))
            line += [" / ".join(f"{ratios[way][policy]:.3f}" for way in WAYS) for policy in POLICIES]
        lines.append(line)
    return table(["trace", "`cost_benefit`", "`auto`", "PCIe: `cost_benefit`", "`auto`"], lines)
