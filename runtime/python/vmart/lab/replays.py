"""Replays in this process: one trace, one machine, one policy, in virtual time."""

from __future__ import annotations

import copy
import functools
import json
import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import vmart.arguments as arguments  # Not from vmart, which would load the extension.
from vmart.errors import InvalidArgument
from vmart.lab.cell_file import Report
from vmart.lab.errors import data_frames, extension, said_by
from vmart.lab.measure import measure_of
from vmart.lab.policy_files import is_file_of_python, policies_in, split
from vmart.lab.traces import Trace, TraceWriter, trace_of
from vmart.reprs import bytes_text

if TYPE_CHECKING:
    import pandas

    from vmart.runtime import Policy

__all__ = ["Comparison", "ReplayResult", "compare", "replay"]

_GIB = float(1 << 30)


def _ms(value: Any, name: str, call: str) -> float:
    return 1e3 * arguments.seconds(value, name, call)


def _gib(value: Any, name: str, call: str) -> float:
    return arguments.size(value, name, call, least=1 << 20) / _GIB


def _mib(value: Any, name: str, call: str) -> float:
    return arguments.size(value, name, call, least=1) / (1 << 20)


def _file(value: Any, name: str, call: str) -> str:
    return arguments.text(os.fspath(value) if isinstance(value, os.PathLike) else value, name, call)


def _share(value: Any, name: str, call: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{call}: {name} is {value!r}; it may be a number, such as 0.5")
    return float(value)


# What a replay takes: the member of ReplaySetting, and what makes its value of the argument.
_OPTIONS: dict[str, tuple[str, Any]] = {
    "machine": ("machine", _file), "router": ("router", arguments.text), "pacing": ("pacing", arguments.text),
    "hbm": ("hbm_gib", _gib), "hbm_share": ("hbm_share", _share), "host": ("host_gib", _gib), "chunk": ("chunk_mib", _mib),
    "admission": ("admission", arguments.text), "admission_memory": ("admission_memory", arguments.text),
    "calibration": ("calibration", _file), "half_life": ("half_life_ms", _ms), "use_interval": ("use_interval_ms", _ms),
    "stall_budget": ("stall_budget_ms", _ms), "stall_ahead": ("stall_ahead_ms", _ms), "ahead": ("ahead_ms", _ms),
    "pace_guard": ("no_pace_guard", lambda value, name, call: not arguments.flag(value, name, call)),
    "uses": ("uses", arguments.text), "unseen": ("unseen", _share), "stop": ("stop", arguments.text),
    "slo_first": ("slo_first_ms", _ms), "slo_step": ("slo_step_ms", _ms),
}  # fmt: skip


def replay(
    trace: Any,
    *,
    machine: str | os.PathLike[str] = "h200x4",
    policy: Any = "cost_benefit",
    policies: Iterable[type[Policy]] = (),
    on_failure: str = "raise",
    **options: Any,
) -> ReplayResult:
    """What a policy would have done with a trace on a machine: `vmart-lab replay` in this process, with the same result.

    `trace` is a path, or what `generate`, `import_` and `TraceWriter` make. `machine` is a name or a file. `policy` is

    - a text as in VMART_POLICY: "auto", "counter:theta=2", "./mine.so:uses=3" (a library of C++), "guarded+Follow"; also
      "./mine.py:uses=3", a file with a subclass of `vmart.Policy`, or "Follow@./mine.py" if it has several;
    - a subclass of `vmart.Policy`, made anew for the replay with its default parameters, or one of `policies`, by its name;
    - an instance of one. It is copied (`copy.deepcopy`), so that replays do not see each other's; the copy that decided is
      `policy_object` of the result.

    Options, as in docs/guide/replay.md: `hbm` and `host`, the memory of each GPU and host node in bytes or as "4GiB";
    `hbm_share`, the HBM of all GPUs together as a share of what the trace has at once; `chunk` (32 MiB); `router`, `pacing`,
    `admission`, `admission_memory`, `uses`, `stop`; `unseen`, a share; `calibration`, a file; and in seconds `half_life`, `use_interval`, `stall_budget` (a
    second), `stall_ahead`, `ahead`, `slo_first`, `slo_step`; `pace_guard=False`. Nothing is drawn: equal arguments give equal
    results, if the policy of Python decides equally. A seed belongs to `generate`, or to the parameters of a policy.

    What a policy raises ends the replay and comes out here, with its traceback. With `on_failure="count"` it is counted in
    `metrics["policy_failures"]`, its plan is dropped, and after several failures `stay_put` decides, as in a program.
    Raises `vmart.InvalidArgument` for a trace, machine, policy or option that there is not, `MissingLibrary` where the
    extension is not installed. Blocks, without the GIL but for calls of a policy of Python, which are on this thread. Several
    threads may replay at once. Ctrl-C on the main thread ends it.
    """
    call = "vmart.lab.replay"
    made = trace_of(trace, call)
    lab = extension(call)
    setting = lab.ReplaySetting()
    known = {name: functools.partial(_set, setting, *how) for name, how in _OPTIONS.items()}
    arguments.options({"machine": machine, **options}, known, call)
    setting.trace = str(made.path)
    if options.get("hbm_share") is not None and "room" in made.summary:  # Read once for any number of replays.
        setting.know_room(*made.summary["room"])
    ends_it = arguments.choice(on_failure, "on_failure", call, ("raise", "count")) == "raise"
    deciding: list[Policy] = []
    kinds = [_kind(each, call, deciding) for each in _classes(policies, call)]
    setting.policy = _policy_text(policy, kinds, deciding, call)
    on_main_thread = threading.current_thread() is threading.main_thread()
    with said_by(call, _OPTIONS):
        report = json.loads(lab.replay(setting, kinds, ends_it, on_main_thread))
    return ReplayResult(made, report, deciding[-1] if deciding else None)


def _set(setting: Any, member: str, check: Any, value: Any, name: str, call: str) -> None:
    setattr(setting, member, check(value, name, call))


def _classes(policies: Any, call: str) -> list[type[Policy]]:
    from vmart.runtime import Policy

    classes = list(policies) if isinstance(policies, Iterable) else [policies]
    for each in classes:
        if not isinstance(policies, Iterable) or not isinstance(each, type) or not issubclass(each, Policy):
            raise TypeError(f"{call}: policies is {policies!r}; it may be a list of subclasses of vmart.Policy")
    return classes


def _kind(made: type[Policy], call: str, deciding: list[Policy]) -> Any:
    from vmart.runtime import policy_kind

    def make(**parameters: float) -> Policy:
        deciding.append(made(**parameters))
        return deciding[-1]

    return policy_kind(made, call, make, passes_on=True)


def _policy_text(policy: Any, kinds: list[Any], deciding: list[Policy], call: str) -> str:
    """How the policy is written. Adds its kind, if it is one of Python."""
    from vmart import _core
    from vmart.runtime import Policy, require_calls

    if is_file_of_python(os.fspath(policy) if isinstance(policy, os.PathLike) else policy):
        around, name, path, parameters = split(os.fspath(policy))
        found = policies_in(path, call)
        _put(kinds, *(_kind(each, call, deciding) for each in found))
        if not name and len(found) > 1:
            names = ", ".join(each.__name__ for each in found)
            raise InvalidArgument(f"{call}: {path}: it has several policies; name one of {names} as NAME@{path}", call)
        return f"{around}{name or found[0].__name__}{parameters}"
    if isinstance(policy, str):
        head = policy.partition(":")[0]
        return f"./{policy}" if head.endswith(".so") and "/" not in head else policy
    if isinstance(policy, os.PathLike):
        return os.path.abspath(policy)
    if isinstance(policy, type) and issubclass(policy, Policy):
        _put(kinds, _kind(policy, call, deciding))
        return policy.__name__
    if isinstance(policy, Policy):
        require_calls(type(policy), call)
        deciding.append(_copied(policy, call))
        _put(kinds, _core.policy_kind(type(policy).__name__, {}, lambda: deciding[-1], True))
        return type(policy).__name__
    raise TypeError(f"{call}: policy is {policy!r}; it may be a name such as \"auto\", a library such as \"./mine.so\", or a "
                    "subclass of vmart.Policy or an instance of one")  # fmt: skip


def _put(kinds: list[Any], *own: Any) -> None:
    """Adds kinds, which go before others of their names."""
    names = {kind.name for kind in own}
    kinds[:] = [*(kind for kind in kinds if kind.name not in names), *own]


def _copied(policy: Policy, call: str) -> Policy:
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        raise InvalidArgument(f"{call}: {type(policy).__name__} cannot be copied for the replay ({error}); pass the class, or "
                              "give it __deepcopy__", call) from error  # fmt: skip


class ReplayResult:
    """One replay: `metrics` (a dict, docs/guide/replay.md lists the keys), and data frames of the rest.

    `trace`, the `Trace`; `machine` and `policy`, texts; `policy_object`, the instance of Python that decided, or None;
    `report`, all that `vmart-lab replay --json` prints, a dict; `measure`, what policies are ranked by: "seconds" for a closed
    loop, "cost_s" for an open one, whose makespan none changes. Data frames are made when they are first asked for, and need
    pandas: they raise `MissingLibrary` without it. Immutable, so any thread may read it.
    """

    def __init__(self, trace: Trace, report: dict[str, Any], policy_object: Policy | None) -> None:
        self.trace = trace
        # The file may be gone, or another, when it is asked for.
        trace._told = {"name": report["inputs"]["trace_name"], "closed_loop": report["closed_loop"]}
        self.report = report
        self.policy_object = policy_object
        self.metrics: dict[str, Any] = report["metrics"]
        self.machine: str = report["inputs"]["machine"]
        self.policy: str = report["inputs"]["policy"]
        self.measure: str = measure_of(report["closed_loop"])
        self._checked = Report("the replay", report)

    @property
    def time_s(self) -> float:
        """The value of the measure, in seconds: less is better."""
        return self.metrics[self.measure]

    @property
    def seconds(self) -> float:
        """The makespan: from the first event to the end of the last access, in virtual seconds."""
        return self.metrics["seconds"]

    @property
    def moves(self) -> int:
        return self.metrics["moves"]

    @property
    def bytes_moved(self) -> int:
        return self.metrics["bytes_moved"]

    @property
    def row(self) -> dict[str, Any]:
        """Names and scalar metrics, for a frame of many: `pandas.DataFrame([each.row for each in results])`."""
        scalars = {name: value for name, value in self.metrics.items() if not isinstance(value, (dict, list))}
        return {"trace": self.trace.name, "machine": self.machine, "policy": self.policy, "measure": self.measure,
                "time_s": self.time_s, **scalars}  # fmt: skip

    def __repr__(self) -> str:
        return (f"<vmart.lab.ReplayResult of {self.trace.name!r} on {self.machine} with {self.policy}: {self.measure} "
                f"{self.time_s:.6g}, {self.moves} moves of {bytes_text(self.bytes_moved)}>")  # fmt: skip

    @functools.cached_property
    def windows(self) -> pandas.DataFrame:
        """One row for each 100 ms: window (number), begin_s, end_s, bytes (accessed), access_s, local_s, slowdown, bytes_moved."""
        return self._frame("windows_of")

    @functools.cached_property
    def resident(self) -> pandas.DataFrame:
        """One row a window: window, and a column for each place with the bytes that lie there at its end."""
        return self._frame("resident_of")

    @functools.cached_property
    def routes(self) -> pandas.DataFrame:
        """One row a route that moves took: source, target (places), bytes."""
        return self._frame("routes_of")

    @functools.cached_property
    def marks(self) -> pandas.DataFrame:
        """One row a mark of the trace: time_s (since it began), text."""
        return self._frame("marks_of")

    @functools.cached_property
    def devices(self) -> pandas.DataFrame:
        """One row a GPU: device, accesses, bytes."""
        return data_frames().DataFrame(self._checked.devices(), columns=["device", "accesses", "bytes"])

    @functools.cached_property
    def links(self) -> pandas.DataFrame:
        """One row a link: link, use (share of what it could have carried, 0 to 1)."""
        return data_frames().DataFrame(list(self.metrics["links"].items()), columns=["link", "use"])

    @functools.cached_property
    def refused(self) -> pandas.DataFrame:
        """One row a reason for which the planner refused moves: reason, times."""
        return data_frames().DataFrame(list(self.report["moves_refused"].items()), columns=["reason", "times"])

    @functools.cached_property
    def tags(self) -> pandas.DataFrame:
        """One row a tag of objects: tag, accesses, bytes, access_s, local_s, slowdown (their ratio)."""
        rows = [{"tag": tag, **each} for tag, each in self.report["tenants"].items()]
        frame = data_frames().DataFrame(rows, columns=["tag", "accesses", "bytes", "access_s", "local_s"])
        frame["slowdown"] = frame["access_s"] / frame["local_s"].where(frame["local_s"] > 0)
        return frame

    def _frame(self, made_by: str) -> pandas.DataFrame:
        data_frames()
        from vmart.lab import results

        return getattr(results, made_by)(self._checked)


def compare(traces: Any, policies: Any, *, on_result: Any = None, **options: Any) -> Comparison:
    """Replays each trace with each policy. `traces` and `policies` are lists, or dicts by the names that the result shows; a
    policy is what `replay` takes, and the first one is what the others are compared with. Texts may name the classes among
    them: `["auto", Follow, "guarded+Follow"]`. `options` are those of `replay`.
    `on_result(result)` is called after each. Raises as `replay`; what was replayed before is lost, so use `on_result` or a
    loop of your own for long ones."""
    call = "vmart.lab.compare"
    by_trace = {name: trace_of(trace, call) for name, trace in _named(traces, call, "traces").items()}
    by_policy = _named(policies, call, "policies")
    given = _classes(options.pop("policies", ()), call)
    classes = [each for each in by_policy.values() if isinstance(each, type) and each not in given]
    names = [each.__name__ for each in (*given, *classes)]
    given += [each for each in classes if names.count(each.__name__) == 1]  # Texts mean none of two.
    results: dict[tuple[str, str], ReplayResult] = {}
    for trace_name, trace in by_trace.items():
        for policy_name, policy in by_policy.items():
            result = results[trace_name, policy_name] = replay(trace, policy=policy, policies=given, **options)
            if on_result is not None:
                on_result(result)
    return Comparison(results)


def _named(given: Any, call: str, what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    elif isinstance(given, (str, os.PathLike, Trace)) or not isinstance(given, Iterable):
        raise TypeError(f"{call}: {what} is {given!r}; it may be a list, or a dict by names")
    else:
        named = {}
        for each in given:
            name = _name_of(each)
            if name in named:
                raise InvalidArgument(f'{call}: two of {what} are called "{name}"; pass a dict by names', call)
            named[name] = each
    if not named:
        raise InvalidArgument(f"{call}: {what} is empty", call)
    return named


def _name_of(each: Any) -> str:
    if isinstance(each, (Trace, str)):
        return each.name if isinstance(each, Trace) else each
    if isinstance(each, TraceWriter):
        return each.trace.name
    if isinstance(each, os.PathLike):
        return os.fspath(each)
    return each.__name__ if isinstance(each, type) else type(each).__name__


class Comparison:
    """Results of several policies on several traces: `results` by (trace, policy), and `frame`. Shows as a table."""

    def __init__(self, results: dict[tuple[str, str], ReplayResult]) -> None:
        self.results = results

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict a replay: trace, policy, measure, time_s (its value, in seconds), `ratio` (time_s over that of the first
        policy: below 1 is better; None if that is 0), moves, bytes_moved, stall_s, accesses_lost."""
        first = next(policy for _, policy in self.results)
        rows = []
        for (trace, policy), result in self.results.items():
            base = self.results[trace, first].time_s
            rows.append({"trace": trace, "policy": policy, "measure": result.measure, "time_s": result.time_s,
                         "ratio": result.time_s / base if base else None,
                         **{name: result.metrics[name] for name in ("moves", "bytes_moved", "stall_s", "accesses_lost")}})  # fmt: skip
        return rows

    @functools.cached_property
    def frame(self) -> pandas.DataFrame:
        """`rows` as a data frame. Raises `MissingLibrary` without pandas."""
        return data_frames().DataFrame(self.rows)

    def __repr__(self) -> str:
        shown = [("trace", "policy", "measure", "time [s]", "ratio", "moves", "moved")]
        for row in self.rows:
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
            shown.append((row["trace"], row["policy"], row["measure"], f"{row['time_s']:.3f}", ratio, str(row["moves"]),
                          bytes_text(row["bytes_moved"])))  # fmt: skip
        widths = [max(len(line[at]) for line in shown) for at in range(len(shown[0]))]
        left = 3  # Columns of texts.
        return "\n".join("  ".join(cell.ljust(width) if at < left else cell.rjust(width)
                                   for at, (cell, width) in enumerate(zip(line, widths))).rstrip()
                         for line in shown)  # fmt: skip
