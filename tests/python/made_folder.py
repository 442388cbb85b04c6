"""Result folders with made-up numbers, of the form that `vmart-lab run` writes."""

import csv
import json
import math

from vmart.lab.kinds import kinds_by_trace

GIB = 1 << 30
POLICIES = ("stay_put", "cost_benefit", "counter", "threshold:size=4<&>")
SCALARS = ("seconds", "accesses", "bytes", "access_s", "local_s", "excess_s", "slowdown", "paused_s", "wait_s",
           "move_s", "requests", "first_mean_s", "first_p99_s", "step_mean_s", "step_p99_s", "requests_queued", "queue_mean_s", "queue_p99_s", "preemptions", "steps_again", "bytes_again", "goodput", "limits_met", "access_move_s", "cost_s", "floor_s", "excess_ratio", "moves", "bytes_moved", "stall_s", "skew_s", "stopped_s", "thrashes", "own_share",
           "peer_share", "host_share", "device_accesses_max", "device_share_max", "fairness_tenants", "fairness_devices", "rest_s",
           "marks_at_rest", "marks", "link_use_max", "accesses_lost", "allocations_lost",
           "chunks_spilled", "policy_failures")


def made_windows(index, count, places):
    windows = []
    for step in range(count):
        wave = 1 + math.sin(step / 40 + index)
        windows.append({"bytes": 8 * GIB, "access_s": 0.02 * (1 + wave / (index + 1)),
                        "local_s": 0.02, "bytes_moved": int(GIB * wave * index),
                        "resident": [int(GIB * (4 + place + wave * (1 if place % 2 else -1)))
                                     for place in range(len(places))]})
    return windows


def made_report(index, count, gpus):
    places = [f"gpu({gpu})" for gpu in range(gpus)] + ["host(0)"]
    windows = made_windows(index, count, places)
    return {"begin_ns": 5 * 10**8, "end_ns": 5 * 10**8 + count * 10**8, "window_ns": 10**8,
            "windows": windows, "places": places,
            "bytes_by_route": {"gpu(0)>host(0)": 7 * GIB * index, "host(0)>gpu(1)": 3 * GIB * index}
            if index else {},
            "devices": [{"accesses": 10 + gpu, "bytes": 100} for gpu in range(gpus)],
            "inputs": {"version": "0.1.0", "trace_sum": f"sum-{index}"},
            "marks": [{"time_ns": 5 * 10**8 + count * 10**8 // 2, "text": "phase 1"}]}


def made_cell(names, index, seed, bound, count, gpus):
    metrics = {name: 0 for name in SCALARS}
    cost = 10.0 + index + 0.25 * seed
    metrics |= {"cost_s": cost, "access_move_s": cost, "floor_s": 6.0, "excess_ratio": cost / 6 - 1,
                "stopped_s": 0.002 * index, "access_s": cost - index, "move_s": float(index), "local_s": 6.0,
                "slowdown": cost / 6, "bytes_moved": index * 10 * GIB, "stall_s": 0.001 * index,
                "rest_s": None if index == 0 else 2.0 * index, "marks": 1,
                "marks_at_rest": min(index, 1), "thrashes": 3 * index, "seconds": count / 10,
                "accesses_lost": 4 if index == 3 else 0,
                "links": {"gpu(0) hbm": 0.5, "gpu(0) port": 0.25 * index, "host(0)": 0.125}}
    kind = {"lower_bound_s": 9.5, "plan_s": 9.75, "kind": "relaxed", "gap": 0.026}
    regret = (cost - 9.5) / 9.5 if bound and index != 3 else None
    identity = "-".join(str(name).replace(":", "_").replace("/", "") for name in names.values())
    names = {"id": identity, **names, "pacing": "timed", "chunk_bytes": 32 << 20}
    return {"cell": names, "metrics": metrics, "bound": kind if bound else None, "regret": regret,
            "report": made_report(index, count, gpus)}


def write_cell(folder, cell):
    path = folder / "cells" / f"{cell['cell']['id']}.json"
    path.write_text(json.dumps(cell) + "\n", encoding="utf-8")


def key_of(cell):
    return tuple(cell["cell"][name] for name in ("machine", "trace", "router", "seed"))


def write_table(folder, cells):
    regrets = {}
    for cell in cells:
        if cell["bound"]:
            near = [each for each in (cell["bound"].get("gap"), cell["regret"]) if each is not None]
            regrets.setdefault(key_of(cell), []).extend(near)
    tight = {key: int(min(near, default=1) <= 0.1) for key, near in regrets.items()}
    kinds = kinds_by_trace(json.loads((folder / "experiment.json").read_text(encoding="utf-8")))
    names = ["id", "machine", "trace", "kind", "policy", "router", "seed"]
    with (folder / "results.csv").open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines, lineterminator="\n")
        table.writerow([*names, *SCALARS, "measure", "time_s", "lower_bound_s", "plan_s", "regret", "over_plan", "bound_tight"])
        for cell in cells:
            row = [kinds[cell["cell"]["trace"]] if name == "kind" else cell["cell"][name] for name in names]
            row += [cell["metrics"][name] for name in SCALARS]
            bound, measure = cell["bound"] or {}, cell["cell"].get("measure", "cost_s")
            plan, bounded = bound.get("plan_s"), cell["metrics"][bound.get("metric", "access_move_s")]
            row += [measure, cell["metrics"][measure], bound.get("lower_bound_s"), plan, cell["regret"],
                    bounded / plan if plan and cell["regret"] is not None else None, tight.get(key_of(cell))]
            table.writerow(["" if value is None else value for value in row])


def write_folder(folder, machines=("h200x2",), traces=("drift",), policies=POLICIES, seeds=(1, 2, 3),
                 bound=True, windows=1000, gpus=2, kinds=None):
    """Returns the cells, in the order of the table. `kinds` has those of traces that say so."""
    (folder / "cells").mkdir(parents=True)
    experiment = {"experiment": "made", "about": "Which policy? <b>none</b> & all",
                  "machines": list(machines), "traces": [{"name": name} | ({"kind": kinds[name]} if kinds else {}) for name in traces],
                  "policies": list(policies), "seeds": list(seeds), "bounds": bound, "static": "static" in policies}
    (folder / "experiment.json").write_text(json.dumps(experiment, indent=1), encoding="utf-8")
    cells = []
    for machine in machines:
        for trace in traces:
            for index, policy in enumerate(policies):
                for seed in seeds:
                    names = {"machine": machine, "trace": trace, "policy": policy,
                             "router": "hash", "seed": seed}
                    cells.append(made_cell(names, index, seed, bound, windows, gpus))
    for cell in cells:
        write_cell(folder, cell)
    write_table(folder, cells)
    return cells
