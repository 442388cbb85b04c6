"""What scripts that are no benchmarks write, as entries of a file of samples: times in microseconds, and counters."""

import json

CASES_OF_ROWS = {"standstill": "standstill", "beyond_hbm": "capacity"}
OWNERS = {"real": "torch_memory_saver", "vmart": "vmart"}


def entry(name, seconds, **counters):
    """Raises: ValueError if there is no sample."""
    if not seconds:
        raise ValueError(f"{name} has no samples")
    return {"name": name, "processes": 1, "samples_us": [round(one * 1e6, 3) for one in seconds], "counters": counters}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def of_pauses(path):
    """Of torch_pauses.py. The first repeat of a process also allocates."""
    found = []
    for case, runs in read(path).items():
        later = [each for repeats in runs for each in repeats[1:]]
        if later:
            owner, _, what = case.partition(" ")
            found.append(entry(f"pause/{OWNERS[owner]}/{what}", [each["pause"] + each["resume"] for each in later],
                               pause_us=[each["pause"] * 1e6 for each in later],
                               resume_us=[each["resume"] * 1e6 for each in later]))
    return found


def of_overhead(path):
    """Of run_overhead.py: standstill and capacity. Raises: ValueError if an output under a limit differs from the bare one."""
    document = read(path)
    times = document["samples"].get("standstill", {})
    found = [entry(f"standstill/{name.removesuffix('_s')}", value if isinstance(value, list) else [value])
             for name, value in times.items()]
    limits = document["samples"].get("capacity", {})
    for row in document["rows"]:
        if not row["name"].startswith("capacity: "):
            continue
        if row["met"] is False:
            raise ValueError(f"{row['name']}: the output differs from the bare one")
        name, _, shape = row["name"].removeprefix("capacity: ").rpartition(", ")
        found.append(entry(f"capacity/{name.replace(', ', '_')}/{shape}", [1 / row["value"]], tokens_per_s=[row["value"]],
                           limit_bytes=[limits["limit_bytes"]], weights_bytes=[limits["bare"]["weights_bytes"]]))
    return found


def of_timeline(path):
    """Of timeline.py: the moves, steps before and between them, and those of the bare run."""
    line = read(path)
    there, back = line["moves"]

    def steps(begin, end):
        return [one["took_ms"] / 1e3 for one in line["steps"]
                if begin <= one["end_s"] - one["took_ms"] / 1e3 and one["end_s"] < end]

    equal = line["steps_compared"] if line["first_difference"] is None else line["first_difference"]
    return [
        entry("training/there", [there["end_s"] - there["begin_s"]], moved_bytes=[there["bytes"]]),
        entry("training/back", [back["end_s"] - back["begin_s"]]),
        entry("training/step_before", steps(0, there["begin_s"])),
        entry("training/step_away", steps(there["end_s"], back["begin_s"])),
        entry("training/step_bare", [line["bare"]["step_ms"] / 1e3], compared_count=[line["steps_compared"]],
              equal_count=[equal]),
    ]  # fmt: skip
