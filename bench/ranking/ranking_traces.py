"""The traces of bench/ranking/ranking.py: two that are generated, and a sample of one that was recorded.

A machine does accesses as fast as its memory lets it, so that a trace for it says in which order work
comes, and not how long it takes: `as_launches` makes each access of a trace one kernel's, without a
duration, and puts what runs side by side for long into turns.
"""

import gzip
import heapq
import json
import pathlib
import subprocess

BENCH = pathlib.Path(__file__).resolve().parents[1]
MOONCAKE = BENCH / "traces" / "mooncake" / "conversation_trace.jsonl.gz"
MIB = 1 << 20


def lines_of(path):
    with gzip.open(path, "rt") if str(path).endswith(".gz") else open(path) as file:
        yield from file


def sample_conversations(lines, requests, turns, blocks, conversations):
    """The lines of the first `conversations` that have at least so many turns among the first
    `requests`, and at most so many blocks in each. The first block of a prompt is everybody's system
    prompt; who shares the second one too goes on with a conversation."""
    found = {}
    for number, line in enumerate(lines):
        if number >= requests:
            break
        ids = json.loads(line)["hash_ids"]
        if len(ids) > 1:
            found.setdefault(ids[1], []).append((number, len(ids), line))
    chosen = [each for each in found.values()
              if len(each) >= turns and max(size for _, size, _ in each) <= blocks]
    kept = sorted(turn for each in chosen[:conversations] for turn in each)
    return [line for _, _, line in kept]


def in_turns(event, launch_bytes, passes_share):
    """An access as launches of whole passes: of at most `launch_bytes` each where one pass allows it,
    evenly over its duration. `passes_share` of its passes are done, at least one."""
    duration = event.pop("duration_ns", 0)
    passes = max(1, round(event.pop("passes", 1) * passes_share)) if duration else 1
    a_launch = max(1, launch_bytes // event["bytes"])
    count = -(-passes // a_launch)
    for turn in range(count):
        now = min(a_launch, passes - turn * a_launch)
        yield {**event, "time_ns": event["time_ns"] + duration * turn // count,
               **({"passes": now} if now > 1 else {})}


def as_launches(lines, launch_bytes, passes_share=1.0, times_share=1.0):
    """The lines of a trace whose accesses are launches, in order. With `times_share` below 1 what was
    apart comes closer together, and durations stay: more runs side by side."""
    waiting, count = [], 0
    for line in lines:
        event = json.loads(line)
        if "vmart_trace" in event:
            event["made"] = (event.get("made", "") + f"; ranking_traces launch_bytes={launch_bytes}"
                             f" passes_share={passes_share} times_share={times_share}")
            yield json.dumps(event)
            continue
        event["time_ns"] = round(event["time_ns"] * times_share)
        while waiting and waiting[0][0] < event["time_ns"]:
            yield json.dumps(heapq.heappop(waiting)[2])
        parts = in_turns(event, launch_bytes, passes_share) if event["event"] == "access" else [event]
        for part in parts:
            heapq.heappush(waiting, (part["time_ns"], count, part))
            count += 1
    while waiting:
        yield json.dumps(heapq.heappop(waiting)[2])


def run_lab(lab, *arguments):
    done = subprocess.run([str(lab), *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)
    if done.returncode:
        raise RuntimeError(f"vmart-lab {arguments[0]}: {done.stderr.strip()}")


def make_rebalance(lab, folder, parameters):
    path = folder / "rebalance.vtrace"
    values = [part for name, value in parameters.items() for part in ("--param", f"{name}={value}")]
    run_lab(lab, "generate", "rebalance", path, *values)
    return path


def make_conversations(lab, folder, parameters):
    """A trace of Mooncake's requests; blocks stay cached to the end."""
    requests, whole = folder / "requests.jsonl", folder / "requests_trace.jsonl"
    path, out = folder / "conversations.jsonl", folder / "conversations.vtrace"
    requests.write_text("".join(sample_conversations(lines_of(MOONCAKE), **parameters["sample"])))
    run_lab(lab, "convert", "mooncake", requests, whole, "--param", "keep_s=0", "--param",
            "closed=0", "--param", f"token_bytes={parameters.get('token_bytes', 131072)}")
    lines = as_launches(lines_of(whole), parameters["launch_mib"] * MIB, parameters["passes_share"],
                        parameters["times_share"])
    path.write_text("".join(line + "\n" for line in lines))
    run_lab(lab, "convert", "trace", path, out)
    return out


def steps_of(gpus, phases, steps, block_bytes, chunk_bytes, launch_bytes, compute_us):
    """The events of a program whose GPUs step together, as data-parallel training does: in each step,
    a GPU reads a block and then computes, and the next step begins when all have. With each phase the
    blocks go to the next GPU. All of it is one closed loop."""
    for block in range(gpus):
        yield {"event": "alloc", "object": block, "bytes": block_bytes, "chunk_bytes": chunk_bytes,
               "home": f"gpu({block})", "tag": "block"}
    task, before = 0, []
    for step in range(phases * steps):
        phase = step // steps
        if step % steps == 0:
            yield {"event": "mark", "tag": f"phase {phase}",
                   **({"after_task": before[0]} if before else {})}
        computed = []
        for device in range(gpus):
            task += 1
            yield {"event": "task", "task": task, "device": device,
                   **({"after": before} if before else {})}
            for offset in range(0, block_bytes, launch_bytes):
                yield {"event": "access", "task": task, "object": (device + phase) % gpus,
                       "offset": offset, "bytes": min(launch_bytes, block_bytes - offset)}
            task += 1
            yield {"event": "task", "task": task, "device": device, "after": [task - 1],
                   "compute_ns": compute_us * 1000}
            computed.append(task)
        before = computed


def make_steps(lab, folder, parameters):
    path, out = folder / "steps.jsonl", folder / "steps.vtrace"
    header = {"vmart_trace": 2, "name": "steps",
              "made": f"ranking_traces {json.dumps(parameters)}"}
    events = ({"time_ns": 0, **event} for event in steps_of(**parameters))
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *events)))
    run_lab(lab, "convert", "trace", path, out)
    return out
