#!/usr/bin/env python3
"""Whether the lab predicts what programs do on the machine: records four of them, two of which compute
between their accesses, and holds each against its replay.

    bench/lab/fidelity.py measure --out FOLDER    on a machine with two GPUs: calibrates and records
    bench/lab/fidelity.py predict FOLDER...       anywhere: replays, judges, writes FOLDER/fidelity.json
    bench/lab/fidelity.py show FOLDER...          the tables again

`--repeat 3` runs each program up to three times, as far as `--budget` allows: `spread` then tells how
much the runs differ among themselves, where `error` is that of the medians.
Of several folders, of a machine each, `predict` also takes the median of their calibrations, and judges
with it. Each step has its time limit; one that fails is noted, and the others go on. `measure` leaves
measured.json, calibration_both.json, calibration_one.json (of GPU 0), calibration_first.json and recordings.tar.gz. See docs/results/fidelity.md.
"""

import json
import os
import pathlib
import statistics
import struct
import sys
import tarfile
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(1, str(BENCH))
from harness.measuring_context import make_context, query_gpus
from harness.programs import SKIPPED, parser_of, run_text
from harness.samples import table

BARS = {"total_s": 0.05, "stall_s": 0.15}
SHOWN = ("total_s", "bytes_moved", "stall_s", "skew_s", "gates", "moves", "own_share")
# What VMART_DEVICES is where a calibration is measured: it has to be of the places of the program.
DEVICES = {"both": "0,1", "one": "0"}
CALIBRATIONS = (*DEVICES, "first")  # The last is made of the others, see `make_first`.


class Program:
    """What is recorded: the run under a policy, and for programs that compute also one that has all
    memory where access is fast and moves nothing."""

    def __init__(self, command, local=(), limit_s=90, environment=None, devices="both"):
        self.command, self.local, self.limit_s = command, list(local), limit_s
        self.environment, self.devices = environment or {}, devices

    def runs(self):
        """By name: the command, and its environment."""
        yield "run", self.command, self.environment
        if self.local:
            yield ("local", [*self.command, *self.local],
                   {**self.environment, "VMART_POLICY": "stay_put"})


def programs_for(arguments):
    build = pathlib.Path(arguments.build)
    serving = [str(build / "bench" / "kv_serving"), "--rounds", str(arguments.rounds),
               "--steps", str(arguments.decode_steps)]
    training = [sys.executable, str(BENCH / "lab" / "torch_training.py"),
                str(build / "runtime" / "libvmart.so"), "--steps", str(arguments.steps)]
    return {
        "serving": Program([*serving, "--policy", arguments.policy],
                           local=["--stay", "--policy", "stay_put"]),
        "training": Program(training, local=["--local"], limit_s=120,
                            environment={"VMART_POLICY": arguments.policy,
                                         "VMART_HALF_LIFE_MS": "500"}, devices="first"),
        "rebalance": Program([str(build / "examples" / "rebalance"), "--policy", arguments.policy]),
        "oversubscribe": Program([str(build / "examples" / "oversubscribe"),
                                  *([str(arguments.hbm_mib)] if arguments.hbm_mib else [])],
                                 devices="one"),
    }


def calibration_in(folder, devices):
    return folder / f"calibration_{devices}.json"


def write_json(path, document):
    path.write_text(json.dumps(document, indent=1) + "\n")


def make_first(folder):
    """For programs that know both GPUs, and have streams on GPU 0 only. A gate stops and grants access to that one
    alone, which takes less time for host memory than with both: what the calibration of GPU 0 alone says."""
    both, one = (calibration_in(folder, devices) for devices in DEVICES)
    if not (both.exists() and one.exists()):
        return
    document, alone = json.loads(both.read_text()), json.loads(one.read_text())
    host, host_of_one = 2, 1
    for key in ("move_fixed_ns", "move_s_per_byte", "stall_fixed_ns", "stall_s_per_byte"):
        document[key][0][host] = alone[key][0][host_of_one]
        document[key][host][0] = alone[key][host_of_one][0]
    write_json(calibration_in(folder, "first"), document)


class Measuring:
    """Runs on the machine. What it knows is on disk after each step."""

    def __init__(self, arguments):
        self.arguments, self.out = arguments, pathlib.Path(arguments.out)
        self.end = time.monotonic() + arguments.budget
        self.took_s = {}  # By name of a step that did not fail.
        self.out.mkdir(parents=True, exist_ok=True)
        gpus = query_gpus("name,driver_version") if arguments.driver == "cuda" else []
        self.document = {"context": make_context("bench/lab/fidelity.py", arguments.driver, gpus, 0),
                         "policy": arguments.policy, "runs": [], "failed": []}

    def step(self, name, command, environment, limit_s):
        """The output; None if it failed."""
        left_s = self.end - time.monotonic()
        begin = time.monotonic()
        try:
            if left_s < 5:
                raise RuntimeError("skipped: no time left")
            out, errors, status = run_text(
                command, {**os.environ, "VMART_DRIVER": self.arguments.driver, **environment},
                min(limit_s, left_s))
            if status == SKIPPED:
                raise RuntimeError(f"skipped: {errors.strip()[-200:]}")
            if status:
                raise RuntimeError(f"status {status}: {errors.strip()[-500:]}")
        except (RuntimeError, OSError) as error:
            self.document["failed"].append({"name": name, "reason": str(error)})
            print(f"  FAILED {name}: {error}", flush=True)
            return None
        finally:
            took = time.monotonic() - begin
            self.document["runs"].append({"name": name, "wall_s": round(took, 2)})
            write_json(self.out / "measured.json", self.document)
        print(f"  {name}: {took:.1f} s", flush=True)
        self.took_s[name] = took
        self.document["runs"][-1]["output"] = out[-4000:]
        return out

    def calibrate(self, devices):
        vmart = pathlib.Path(self.arguments.build) / "runtime" / "tools" / "vmart"
        text = self.step(f"calibrate/{devices}",
                         [str(vmart), "calibrate", "--json", "--stops", "--no-keep"],
                         {"VMART_DEVICES": DEVICES[devices]}, 60)
        if text:
            calibration_in(self.out, devices).write_text(text)

    def run(self, programs):
        with tempfile.TemporaryDirectory(prefix="fidelity_") as folder:
            records = pathlib.Path(folder)
            for name, program in programs.items():
                self.calibrate_for(program)
                for kind, command, environment in program.runs():
                    self.record(records, name, kind, program, command, environment)
            for repeat in range(2, self.arguments.repeat + 1):
                for name, program in programs.items():
                    if self.has_time_for(f"{name}/run"):
                        self.record(records, name, f"run{repeat}", program, program.command,
                                    program.environment)
        write_json(self.out / "measured.json", self.document)

    def calibrate_for(self, program):
        """Each once, just before what needs it."""
        for devices in DEVICES if program.devices == "first" else [program.devices]:
            if f"calibrate/{devices}" not in self.took_s:
                self.calibrate(devices)
        if program.devices == "first":
            make_first(self.out)

    def has_time_for(self, name):
        """Again, given that it went well the first time."""
        spare = 1.2
        return name in self.took_s and time.monotonic() + spare * self.took_s[name] < self.end

    def record(self, records, name, kind, program, command, environment):
        calibration = calibration_in(self.out, program.devices)
        to = {"VMART_RECORD": str(records / name / kind)}
        if calibration.exists():  # Policies decide by the costs of the prediction.
            to["VMART_CALIBRATION"] = str(calibration)
        self.step(f"{name}/{kind}", command, {**environment, **to}, program.limit_s)
        self.pack(records)

    def pack(self, records):
        with tarfile.open(self.out / "recordings.tar.gz", "w:gz") as archive:
            for path in sorted(records.rglob("*.rec")):
                archive.add(path, str(path.relative_to(records)))


def begins_recording(path):
    """Whether it is the first file of a recording (docs/reference/recordings.md)."""
    with open(path, "rb") as opened:
        number, first = struct.unpack("<II", opened.read(36)[28:])
    return number == first


def last_recording(folder):
    """The first file of the recording of a program's last runtime, which has the policy. None if there is
    none."""
    found = [path for path in folder.glob("*.rec") if begins_recording(path)]
    return max(found, key=lambda path: int(path.stem.rsplit("-", 1)[1]), default=None)


def check(lab, path, options, limit_s):
    """What `vmart-lab check` says of the recording."""
    if path is None:
        raise RuntimeError("it has no recordings")
    out, errors, status = run_text([str(lab), "check", str(path), "--json", *options],
                                   dict(os.environ), limit_s)
    if status not in (0, 1) or not out.strip():
        raise RuntimeError(errors.strip()[-500:])
    return json.loads(out)[0]


def pauses_of(folder):
    """The option that takes a program's pauses from its local run. Nothing if there is none."""
    path = last_recording(folder)
    return ["--program", str(path)] if path else []


def unpack(archive, folder):
    with tarfile.open(archive) as opened:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        opened.extractall(folder, **safely)


def predict_one(lab, folder, calibrations, arguments):
    """By program, what was recorded and predicted in each of its runs. `calibrations`: a file by what
    DEVICES has."""
    predictions, failed = {}, []
    programs = programs_for(arguments)
    with tempfile.TemporaryDirectory(prefix="fidelity_") as unpacked:
        unpack(folder / "recordings.tar.gz", unpacked)
        for program in sorted(pathlib.Path(unpacked).iterdir()):
            calibration = calibrations.get(programs[program.name].devices)
            options = [*(["--calibration", str(calibration)] if calibration else []),
                       *pauses_of(program / "local"), *arguments.lab_options]
            for run in sorted(program.glob("run*")):
                try:
                    found = check(lab, last_recording(run), options, arguments.limit)
                    predictions.setdefault(program.name, []).append(
                        {key: found[key] for key in ("machine", "figures", "pauses_s",
                                                     "moves_failed", "records_lost",
                                                     "bytes_by_route_recorded")})
                except (RuntimeError, OSError, ValueError, KeyError) as error:
                    failed.append({"name": f"{program.name}/{run.name}", "reason": str(error)})
    return predictions, failed


def medians_of(lab, folders, scratch, arguments):
    """By what DEVICES has, the file with the median of the folders' calibrations, and the spread."""
    medians, spreads = {}, {}
    for devices in CALIBRATIONS:
        given = [calibration_in(folder, devices) for folder in folders]
        given += [pathlib.Path(file) for file in arguments.more_calibrations if devices == "both"]
        given = [file for file in given if file.exists()]
        if len(given) < 2:
            continue
        medians[devices] = pathlib.Path(scratch) / f"median_{devices}.json"
        spreads[devices], errors, status = run_text(
            [str(lab), "calibrations", *map(str, given), "--out", str(medians[devices])],
            dict(os.environ), arguments.limit)
        if status:
            raise SystemExit(errors)
    return medians, spreads


def predict(arguments):
    lab = pathlib.Path(arguments.build) / "runtime" / "tools" / "vmart-lab"
    folders = [pathlib.Path(folder) for folder in arguments.folders]
    for folder in folders:
        make_first(folder)
    with tempfile.TemporaryDirectory(prefix="fidelity_") as scratch:
        medians, spreads = medians_of(lab, folders, scratch, arguments)
        for folder in folders:
            own = {devices: file for devices in CALIBRATIONS
                   if (file := calibration_in(folder, devices)).exists()}
            document = {"spreads": spreads, "predictions": {}, "failed": []}
            for name, files in {"own": own, **({"median": medians} if medians else {})}.items():
                found, failed = predict_one(lab, folder, files, arguments)
                document["predictions"][name] = found
                document["failed"] += failed
            write_json(folder / "fidelity.json", document)


def rows_of(predictions):
    """A row a figure: program, figure, recorded, spread, predicted, error, within."""
    for program, runs in predictions.items():
        for key in SHOWN:
            recorded = [run["figures"][key]["recorded"] for run in runs]
            middle = statistics.median(recorded)
            predicted = statistics.median(run["figures"][key]["predicted"] for run in runs)
            spread, error = "-", "-"
            if middle:
                error = f"{100 * (predicted - middle) / middle:+.1f} %"
                if len(runs) > 1:
                    spread = f"{100 * (max(recorded) - min(recorded)) / middle:.1f} %"
            good = abs(predicted - middle) <= BARS.get(key, 0) * abs(middle)
            yield [program, key, f"{middle:.6g}", spread, f"{predicted:.6g}", error,
                   "" if key not in BARS else "yes" if good else "no"]


HEADERS = ["program", "figure", "recorded", "spread", "predicted", "error", "within"]


def show(folders):
    """Prints the tables. Returns whether any prediction failed."""
    failed = False
    for folder in folders:
        document = json.loads((pathlib.Path(folder) / "fidelity.json").read_text())
        for name, predictions in document["predictions"].items():
            print(f"\n{folder}, calibration: {name}\n")
            print(table(HEADERS, list(rows_of(predictions))))
        for failure in document["failed"]:
            failed = True
            print(f"FAILED {failure['name']}: {failure['reason']}")
    return failed


def parse_arguments():
    parser = parser_of(__doc__)
    parser.add_argument("step", choices=("measure", "predict", "all", "show"))
    parser.add_argument("folders", nargs="*", help="of measurements, one a machine")
    parser.add_argument("--out", help="folder of the measurement")
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--driver", help="VMART_DRIVER; default cuda")
    parser.add_argument("--policy", default="cost_benefit")
    parser.add_argument("--only", nargs="+", help="these programs",
                        choices=("serving", "training", "rebalance", "oversubscribe"))
    parser.add_argument("--rounds", type=int, default=12, help="of the serving loop")
    parser.add_argument("--decode-steps", type=int, default=100, help="in each of its rounds")
    parser.add_argument("--steps", type=int, default=120, help="of the training")
    parser.add_argument("--repeat", type=int, default=1, help="times that each program runs at most")
    parser.add_argument("--hbm-mib", type=int, help="of oversubscribe; default: its own")
    parser.add_argument("--budget", type=float, default=420, help="seconds for all of measure")
    parser.add_argument("--more-calibrations", nargs="+", default=[],
                        help="of other machines of the type, with two GPUs, for the median")
    parser.add_argument("--lab-options", type=str.split, default=[],
                        help="more for vmart-lab check, in one text")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one prediction")
    arguments = parser.parse_args()
    if arguments.step in ("measure", "all"):
        if not arguments.out:
            parser.error("--out is missing")
        arguments.folders = [arguments.out]
    if not arguments.folders:
        parser.error("which folder?")
    arguments.driver = arguments.driver or os.environ.get("VMART_DRIVER") or "cuda"
    return arguments


def main():
    arguments = parse_arguments()
    failed = False
    if arguments.step in ("measure", "all"):
        measuring = Measuring(arguments)
        programs = programs_for(arguments)
        measuring.run({name: programs[name] for name in arguments.only or programs})
        failed = any("skipped" not in each["reason"] for each in measuring.document["failed"])
    if arguments.step in ("predict", "all"):
        predict(arguments)
    if arguments.step != "measure":
        failed = show(arguments.folders) or failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
