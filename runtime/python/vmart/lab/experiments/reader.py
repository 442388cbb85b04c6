"""Reads an experiment's file, resolves all names in it, and has a worker create each machine, policy and
router once as a check. For traces it only checks that the files exist."""

import itertools
import json
import os

from vmart.lab.cell_file import is_number
from vmart.lab.errors import ExperimentError
from vmart.lab.experiments.experiment import Experiment, Machine, Trace
from vmart.lab.experiments.fields import Fields, JsonObject, Problem, Problems, shortest
from vmart.lab.experiments.worker import Refusal, utf8
from vmart.lab.kinds import BASELINE, KINDS, kind_of

EXPERIMENT_KEYS = ("experiment", "about", "machines", "traces", "policies", "routers", "pacing", "chunk_mib",
                   "seeds", "bounds", "static", "admission", "admission_memory", "slo_first_ms", "slo_step_ms",
                   "uses", "unseen", "use_interval_ms", "stop", "stall_budget_ms", "pace_guard")
MACHINE_KEYS = ("name", "machine", "hbm_gib", "host_gib", "hbm_share")
TRACE_KEYS = ("name", "kind", "generate", "convert", "file", "input", "parameters")
POLICY_KEYS = ("policy", "sweep")
NAME_BYTES_MAX = {"machines": 100, "traces": 100, "policies": 1000, "routers": 100, "seeds": 100}
ENTRIES_MAX = 10_000  # Of a list, and of a sweep's policies.
GIB_MAX = 64 * 1024 * 1024
DAY_MS = 86_400_000
MIB = 1024 * 1024
STOPS = ("gate", "suspension")
HBM_SHARE = (0.001, 64)  # As `hbm_share_min` and `hbm_share_max` of the replay.
SEED_MAX = 2**53  # The JSON readers keep integers exact up to this value.


def read_experiment(file, worker):
    """Raises ExperimentError with the file, the path of the key and the reason, of all problems at once."""
    file = utf8(file)
    try:
        with open(file, "rb") as opened:
            text = opened.read()
    except OSError as error:
        raise ExperimentError(f"{file}: cannot be read") from error
    try:
        return Reader(parse(text, file, worker), file, text, worker).read()
    except Problem as problem:
        raise ExperimentError(str(problem)) from problem


def parse(text, file, worker):
    """The JSON of a text. A worker finds what is wrong in it, with its line: also a key that occurs twice."""
    try:
        decoded = text.decode()
        worker.ask("json", text=decoded, file=file)
        return json.loads(decoded, parse_int=whole_number)
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{file}: is not UTF-8 at byte {error.start}") from error
    except Refusal as error:
        raise ExperimentError(str(error).removeprefix("read_experiment: invalid_argument: ")) from error


def whole_number(text):
    """No more digits than the program's numbers have."""
    number = int(text)
    return number if -2**63 <= number < 2**64 else float(text)


class Reader:
    def __init__(self, value, file, text, worker):
        self.file = file
        self.text = text
        self.worker = worker
        self.problems = Problems()
        self.json = JsonObject(value, file)
        self.names = set()
        self.libraries = {}

    def read(self):
        json, fields = self.json, self.fields_of(self.json, EXPERIMENT_KEYS)
        fields.read("experiment", json.text, "experiment")
        fields.read_if_there("about", json.text, "about")
        experiment = Experiment(
            file=self.file, text=self.text, libraries=self.libraries,
            machines=fields.read("machines", self.each, "machines", self.machine_named, self.machine_object),
            traces=fields.read("traces", self.each, "traces", self.trace_text, self.trace),
            policies=fields.read("policies", self.policies),
            routers=fields.read_if_there("routers", self.each, "routers", self.router, self.router_object,
                                         otherwise=["prefix"]),
            pacing=self.setting(fields, "pacing", "timed"),
            admission=self.setting(fields, "admission", "preempt"),
            admission_memory=self.setting(fields, "admission_memory", "all"),
            limits={key: fields.read(key, json.number, key, 0, DAY_MS)
                    for key in ("slo_first_ms", "slo_step_ms") if key in json},
            options=self.options(fields),
            chunk_bytes=fields.read_if_there("chunk_mib", self.chunk_bytes, otherwise=32 * MIB),
            seeds=fields.read_if_there("seeds", self.seeds, otherwise=[1]),
            bounds=fields.read_if_there("bounds", json.flag, "bounds", otherwise=False))
        beside = fields.read_if_there("static", json.flag, "static", otherwise=True)
        fields.finish()
        self.problems.require_none()
        if beside and BASELINE not in experiment.policies:
            experiment.policies.insert(0, BASELINE)
        return experiment

    def fields_of(self, json, known):
        return Fields(self.problems, json, known, self.worker)

    def each(self, key, text, element):
        """What `text` or `element` makes of each entry, called with its place in the file. The problems of
        each are collected separately."""
        entries = self.json.list(key)
        if not entries:
            self.json.refuse(key, "is empty")
        if len(entries) > ENTRIES_MAX:
            self.json.refuse(key, "is too long")
        made = []
        for index, entry in enumerate(entries):
            place = f"{key}[{index}]"
            with self.problems.collect():
                if isinstance(entry, str):
                    made.append(text(place, entry))
                else:
                    made.append(element(place, JsonObject(entry, self.file, place)))
        return made

    def only_once(self, place, name):
        key = place.partition("[")[0]
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX[key]:
            self.json.refuse(place, "has no name or one that is too long")
        if (key, name) in self.names:
            self.json.refuse(place, f'"{name}" was already used above')
        self.names.add((key, name))

    def beside(self, path):
        """A path relative to the experiment's file."""
        return os.path.normpath(os.path.join(os.path.dirname(self.file), path))

    def machine(self, described, json, key, name=None, **capacities):
        is_path = "/" in described or described.endswith(".json")
        spec = {"file": self.beside(described) if is_path else described, **capacities}
        with json.at(key):
            stop = self.json.value.get("stop")
            self.worker.ask("machine", machine=spec, **({"stop": stop} if stop in STOPS else {}))
        return Machine(name or described, spec)

    def machine_named(self, place, name):
        self.only_once(place, name)
        return self.machine(name, self.json, place)

    def machine_object(self, place, json):
        fields = self.fields_of(json, MACHINE_KEYS)
        name = fields.read("name", json.text, "name")
        described = fields.read("machine", json.text, "machine")
        capacities = {key: fields.read(key, json.number, key, 1 / 1024, GIB_MAX)
                      for key in ("hbm_gib", "host_gib") if key in json}
        capacities = {key: value for key, value in capacities.items() if value is not None}
        share = fields.read_if_there("hbm_share", self.hbm_share, json)
        machine = None
        if described:
            machine = fields.read("machine", lambda: self.machine(described, json, "machine", name, **capacities))
        fields.finish()
        if name:
            self.only_once(place, name)
        if machine and share is not None:
            machine.described["hbm_share"] = share
        return machine

    def hbm_share(self, json):
        if "hbm_gib" in json:
            json.refuse("hbm_share", "cannot be combined with hbm_gib")
        return json.number("hbm_share", *HBM_SHARE)

    def trace_text(self, place, _):
        self.json.refuse(place, "is not an object")

    def trace(self, place, json):
        fields = self.fields_of(json, TRACE_KEYS)
        name = fields.read("name", json.text, "name")
        recipe = {"how": "file", "maker": "", "input": "", "values": ()}
        with self.problems.collect():
            recipe |= self.recipe(json, fields)
        kind = fields.read("kind", self.kind, json)
        fields.finish()
        if name:
            self.only_once(place, name)
        return Trace(name=name, where=json.where(""), kind=kind, **recipe)

    def recipe(self, json, fields):
        for how in ("generate", "convert"):
            if how in json:
                given = fields.read("input", self.converted, json, "input") if how == "convert" else ""
                return {"how": how, "input": given, **(fields.read(how, self.maker, json, how) or {})}
        if "file" in json:
            return {"input": fields.read("file", self.input, json, "file")}
        if not fields.misspelt & {"generate", "convert", "file"}:
            json.refuse("", "must have one of generate, convert, file")
        return {}

    def maker(self, json, how):
        name, values = json.text(how), self.parameters(json)
        with json.at(how):
            self.worker.ask("recipe", values=values, seed=0, **{how: name})
        return {"maker": name, "values": tuple(values)}

    def parameters(self, json):
        if "parameters" not in json:
            return []
        for key, value in json.object("parameters").items():
            if not is_number(value):
                json.refuse(f"parameters.{key}", "is not a number")
        return [f"{key}={shortest(value)}" for key, value in json.object("parameters").items()]

    def converted(self, json, key):
        """Some formats are folders of files."""
        path = self.beside(json.text(key))
        return path if os.path.isdir(path) else self.input(json, key)

    def input(self, json, key):
        path = self.beside(json.text(key))
        if not os.path.isfile(path):
            json.refuse(key, f"{path} is not a file")
        return path

    def kind(self, json):
        if "kind" in json and json.text("kind") not in KINDS:
            json.refuse("kind", f"is none of {', '.join(KINDS)}")
        return kind_of(json.value)

    def policies(self):
        entries = self.each("policies", lambda place, text: [self.policy(place, text)], self.policy_object)
        return list(itertools.chain.from_iterable(entries))

    def policy(self, place, text):
        self.only_once(place, text)
        with self.json.at(place):
            made = self.worker.ask("policy", policy=text, folder=os.path.dirname(self.file))
        if "library" in made:
            self.libraries[text] = made["library"]
        return text

    def policy_object(self, place, json):
        fields = self.fields_of(json, POLICY_KEYS)
        made = fields.read("policy", lambda: [self.policy(place, text) for text in swept(json)])
        fields.finish()
        return made or []

    def router(self, place, text):
        self.only_once(place, text)
        self.check_setting(self.json, place, "router", text)
        return text

    def router_object(self, _, json):
        json.refuse("", "must be a string")

    def setting(self, fields, key, otherwise):
        """A value by name that replays know."""
        return fields.read_if_there(key, self.named, key, otherwise=otherwise)

    def named(self, key):
        self.check_setting(self.json, key, key, self.json.text(key))
        return self.json.value[key]

    def options(self, fields):
        """What replays are told of beside all that: only what the file says."""
        json = self.json

        def flag():
            return json.flag("pace_guard")

        def unseen():
            if json.value.get("uses", "exact") == "exact":
                json.refuse("unseen", 'needs "uses" launches or base_pointers')
            return json.number("unseen", 0, 1)

        read = {"uses": lambda: self.named("uses"), "stop": lambda: self.named("stop"), "unseen": unseen, "pace_guard": flag,
                "use_interval_ms": lambda: json.number("use_interval_ms", 0.01, DAY_MS),
                "stall_budget_ms": lambda: json.number("stall_budget_ms", 0, 1000)}
        return {key: fields.read(key, value) for key, value in read.items() if key in json}

    def check_setting(self, json, place, name, value):
        with json.at(place):
            self.worker.ask("setting", name=name, value=value)

    def chunk_bytes(self):
        return int(self.json.number("chunk_mib", 1 / 1024, 1024 * 1024) * MIB)

    def seeds(self):
        entries = self.json.list("seeds")
        if not 0 < len(entries) <= ENTRIES_MAX:
            self.json.refuse("seeds", "is empty or too long")
        seeds = []
        for index, entry in enumerate(entries):
            place = f"seeds[{index}]"
            with self.problems.collect():
                if not (is_number(entry) and 0 <= entry <= SEED_MAX and entry == int(entry)):
                    self.json.refuse(place, "is not a whole number from 0 to 2^53")
                self.only_once(place, str(int(entry)))
                seeds.append(int(entry))
        return seeds


def swept(json):
    """{"policy": "cost_benefit", "sweep": {"margin": [1, 2], "horizon": ["1s"]}} as policies: every
    combination as a text, with the last parameter changing fastest."""
    texts = [json.text("policy")]
    sweep = json.object("sweep") if "sweep" in json else {}
    for name, values in sweep.items():
        key = f"sweep.{name}"
        if not isinstance(values, list) or not values:
            json.refuse(key, "is not a list of values")
        if len(texts) * len(values) > ENTRIES_MAX:
            json.refuse(key, "makes too many policies")
        if not all(shortest(value) for value in values):
            json.refuse(key, "contains something other than a number, string or boolean")
        texts = [f"{text}{',' if ':' in text else ':'}{name}={shortest(value)}"
                 for text in texts for value in values]
    return texts
