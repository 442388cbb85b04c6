#!/usr/bin/env python3
"""Records a training run whose memory moves to the other GPU and back, beside a run without vmart.

    timeline.py BUILD --out FILE.json [--between 3] [--program COMMAND]

trained_gpt.py trains under `vmart run`. All of its memory that can move goes to gpu1, and back after some
seconds. Then it trains bare, as many steps: its losses must be the same to the last bit. The file has how
long each step took, where the bytes were, the moves and the losses of both; timeline_plots.py draws it.
Leaves with 1 if the losses differ, with 77 without PyTorch and two GPUs.
"""

import importlib.util
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "bench"), str(ROOT / "tests/gpu/run")]
from harness.measuring_context import make_context, query_gpus
from harness.programs import parser_of, skip
from playing import environment
from run_programs import gpu_count
from served_model import MovableProgram, Places

TRAINED = [sys.executable, "-B", str(ROOT / "bench/unmodified/trained_gpt.py")]
LOOK_S = 0.02
BARE_S = 300


def moved_run(vmart, program, between_s):
    """Returns the log of the program, its moves and where its bytes were."""
    with MovableProgram(vmart, program) as training:
        places, moves = Places(training.folder.name, LOOK_S), []
        time.sleep(between_s)
        for place in ("gpu1", "gpu0"):
            begin, end = training.move_to(place, "all")
            moves.append({"to": place, "begin_s": begin, "end_s": end})
            places.await_look(end)
            time.sleep(between_s)
        looks = places.end()
        return training.end(), moves, looks


def bare_run(program, steps):
    with tempfile.TemporaryDirectory(prefix="vmart-") as folder:
        log = pathlib.Path(folder) / "log.json"
        subprocess.run([*program, "--log", str(log), "--steps", str(steps)], env=environment({}),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=BARE_S, check=True)
        return json.loads(log.read_text())


def document_of(log, moves, looks, bare):
    """With times in seconds from the first step whose places are known."""
    zero = looks[0][0]
    steps = [number for number, (begin, _) in enumerate(log["steps"]) if begin >= zero]
    return {
        "moves": [{**move, "begin_s": round(move["begin_s"] - zero, 4),
                   "end_s": round(move["end_s"] - zero, 4),
                   "bytes": bytes_at(looks, move["end_s"], move["to"])} for move in moves],
        "steps": [{"end_s": round(log["steps"][number][1] - zero, 4), "took_ms": took_ms(log, number),
                   "loss": log["losses"][number]} for number in steps],
        "places": [{"at_s": round(at - zero, 4), **places} for at, places in looks],
        "bare": {"step_ms": statistics.median(took_ms(bare, number) for number in steps),
                 "losses": [bare["losses"][number] for number in steps]},
        "steps_compared": len(log["losses"]),
        "first_difference": first_difference(log, bare),
    }


def first_difference(log, other):
    """The number of the step whose loss differs; None if all are the same."""
    return next((number for number, pair in enumerate(zip(log["losses"], other["losses"]))
                 if pair[0] != pair[1]), None)


def took_ms(log, number):
    begin, end = log["steps"][number]
    return round((end - begin) * 1e3, 3)


def bytes_at(looks, after_s, place):
    return next((places[place] for at, places in looks if at >= after_s), looks[-1][1][place])


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--between", type=float, default=3, help="seconds of steps around each move")
    parser.add_argument("--program", type=shlex.split, default=TRAINED)
    return parser.parse_args()


def main():
    options = parse_arguments()
    if gpu_count() < 2 or (options.program == TRAINED and importlib.util.find_spec("torch") is None):
        return skip("this needs PyTorch and two GPUs")
    vmart = options.build.resolve() / "runtime/tools/vmart"
    log, moves, looks = moved_run(vmart, options.program, options.between)
    bare = bare_run(options.program, len(log["losses"]))
    document = document_of(log, moves, looks, bare)
    document = {"context": make_context("timeline.py", "cuda", query_gpus("name,driver_version"), None),
                **document}
    options.out.write_text(json.dumps(document) + "\n", encoding="utf-8")
    for move in document["moves"]:
        print(f"to {move['to']}: {move['bytes'] / 2**30:.2f} GiB in "
              f"{(move['end_s'] - move['begin_s']) * 1e3:.0f} ms")
    different = document["first_difference"]
    print(f"{document['steps_compared']} losses, " +
          ("all as bare" if different is None else f"not as bare from step {different} on"))
    if different is not None:
        again = first_difference(bare, bare_run(options.program, len(log["losses"])))
        print("two bare runs are the same" if again is None else f"two bare runs differ, too, from step {again} on")
    return 0 if different is None else 1


if __name__ == "__main__":
    sys.exit(main())
