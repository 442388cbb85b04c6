"""A result folder as data frames."""

import csv
import functools
import pathlib

import numpy
import pandas

from vmart.lab.cell_file import CELL_COUNTS, CELL_TEXTS, CellFile, read_json
from vmart.lab.errors import ResultError
from vmart.lab.kinds import kinds_by_trace
from vmart.lab.measure import is_tight
from vmart.lab.spread import mean_and_half

GROUP = ["machine", "trace", "policy", "router"]
BOUND_OF = ["machine", "trace", "router", "seed"]
TEXTS = {*CELL_TEXTS, "kind", "bound_kind", "measure"}
NOT_SUMMED_UP = {*TEXTS, *CELL_COUNTS, "bound_tight"}


class Results:
    """What `vmart-lab run` left in a folder. The frames are made when they are first asked for.

    experiment -- the experiment file, a dict
    ids        -- of the finished cells, in the order of the experiment (`results.csv`)
    unfinished -- ids that `results.csv` names and that have no file in `cells/`
    """

    def __init__(self, folder, experiment, ids, unfinished):
        self.folder = pathlib.Path(folder)
        self.experiment = experiment
        self.ids = ids
        self.unfinished = unfinished

    def cell(self, identity):
        """The file of one cell, read and checked: a `CellFile`, whose `report` is the whole of it."""
        return CellFile(cell_path(self.folder, identity))

    @functools.cached_property
    def _first_pass(self):
        rows, links, devices, made_from = [], [], [], []
        for identity in self.ids:
            cell = self.cell(identity)
            rows.append(cell.row)
            links.extend((identity, link, use) for link, use in cell.links.items())
            devices.extend((identity, *device) for device in cell.devices())
            inputs = cell.inputs()
            made_from.append((cell.row["trace"], cell.row["seed"], inputs.get("trace_sum"), inputs.get("version")))
        return rows, links, devices, made_from

    def __repr__(self):
        missing = f", {len(self.unfinished)} without a result" if self.unfinished else ""
        return f"<vmart.lab.Results of {str(self.folder)!r}: {len(self.ids)} cells{missing}>"

    @functools.cached_property
    def cells(self):
        """One row a cell: its names, the kind of its trace (real, synthetic or held_out), then its
        scalar metrics, flat.

        Names as the replay's metrics have them: `_s` are seconds, `bytes` and `bytes_moved` bytes,
        shares and fairness from 0 to 1, the rest counts. Then `measure`, the metric that policies are
        ranked by, and time_s, its value; lower_bound_s, plan_s (seconds), bound_gap, regret, over_plan
        (ratios), bound_kind, bound_tight (1: shown to be tight, 0: not). NaN or None where a cell has none.
        """
        frame = pandas.DataFrame(self._first_pass[0])
        if len(frame):
            kinds = kinds_by_trace(self.experiment)
            kind = [kinds.get(trace, "real") for trace in frame["trace"]]
            frame.insert(frame.columns.get_loc("trace") + 1, "kind", kind)
        for name in frame.columns.difference([*TEXTS, *CELL_COUNTS]):
            frame[name] = frame[name].astype(float)
        if len(frame):
            tight = {key: float(is_tight(group["bound_kind"].iloc[0], group["bound_gap"].iloc[0], group["regret"]))
                     for key, group in frame[frame["lower_bound_s"].notna()].groupby(BOUND_OF)}
            frame["bound_tight"] = [tight.get(key, numpy.nan) for key in zip(*(frame[name] for name in BOUND_OF))]
        return frame

    @functools.cached_property
    def distinct(self):
        """`cells` without the seeds that give all policies of a machine, trace and router the numbers of an earlier
        one: they are one measurement, and count once."""
        cells = self.cells
        if len(cells) == 0:
            return cells
        kept, told = [], set()
        for key, group in cells.groupby(BOUND_OF, sort=False):
            numbers = group.drop(columns=["id", "seed"]).sort_values("policy").to_csv(index=False)
            if (key[:3], numbers) not in told:
                kept += list(group.index)
            told.add((key[:3], numbers))
        return cells.loc[sorted(kept)]

    @functools.cached_property
    def links(self):
        """One row a cell and link: id, link, use (share of what it could have carried, 0 to 1)."""
        return pandas.DataFrame(self._first_pass[1], columns=["id", "link", "use"])

    @functools.cached_property
    def devices(self):
        """One row a cell and device: id, device, accesses, bytes, and accesses_share and bytes_share,
        from 0 to 1 (NaN where the cell has none)."""
        frame = pandas.DataFrame(self._first_pass[2], columns=["id", "device", "accesses", "bytes"])
        for name in ("accesses", "bytes"):
            frame[name] = frame[name].astype(float)
            sums = frame.groupby("id")[name].transform("sum")
            frame[f"{name}_share"] = frame[name] / sums.where(sums > 0)
        return frame

    @functools.cached_property
    def made_from(self):
        """One row a trace and seed: trace, seed, trace_sum (checksum of its bytes), version (of the
        program). Texts; None in results that lack them."""
        frame = pandas.DataFrame(self._first_pass[3], columns=["trace", "seed", "trace_sum", "version"])
        return frame.drop_duplicates(ignore_index=True)

    @functools.cached_property
    def summary(self):
        """One row a machine, trace, policy and router: `kind` (of the trace), `measure`, `seeds`, and for each scalar metric X its
        mean over seeds `X_mean`, 95 % half width `X_half` (Student's t) and `X_count`, the seeds
        that have a number. X_half is NaN for one seed. Seeds are those of `distinct`, and a regret is
        of a bound that was shown to be tight."""
        cells = self.distinct
        if len(cells):
            cells = cells.assign(regret=cells["regret"].where(cells["bound_tight"] > 0))
        metrics = [name for name in cells.columns if name not in NOT_SUMMED_UP]
        rows = []
        if len(cells) == 0:
            return pandas.DataFrame(columns=[*GROUP, "kind", "measure", "seeds", "bound_kind"])
        for key, group in cells.groupby(GROUP, sort=False):
            row = dict(zip(GROUP, key))
            row["kind"], row["measure"] = group["kind"].iloc[0], group["measure"].iloc[0]
            row["seeds"] = len(group)
            kinds = sorted(set(group["bound_kind"].dropna()))
            row["bound_kind"] = ", ".join(kinds) or None
            for name in metrics:
                row[f"{name}_mean"], row[f"{name}_half"] = mean_and_half(group[name])
                row[f"{name}_count"] = int(group[name].count())
            rows.append(row)
        return pandas.DataFrame(rows)

    @functools.cached_property
    def windows(self):
        """One row a cell and window: id, window (number), begin_s, end_s (seconds since the cell's
        trace began), bytes (accessed), access_s, local_s (sums over accesses), slowdown (their
        ratio, NaN in a window in which no access ended), bytes_moved."""
        return self._of_all(windows_of)

    @functools.cached_property
    def resident(self):
        """One row a cell and window: id, window, and a column for each place of any cell with the
        bytes that lie there at the window's end (NaN where the cell's machine has no such place)."""
        return self._of_all(resident_of)

    @functools.cached_property
    def routes(self):
        """One row a cell and route that was used: id, source, target (places), bytes (moved)."""
        return self._of_all(routes_of)

    @functools.cached_property
    def marks(self):
        """One row a cell and mark of its trace: id, time_s (seconds since the trace began), text."""
        return self._of_all(marks_of)

    def _of_all(self, frame_of):
        frames = []
        for identity in self.ids:
            frame = frame_of(self.cell(identity))
            frame.insert(0, "id", identity)
            frames.append(frame)
        filled = [frame for frame in frames if len(frame)] or frames[:1]
        return pandas.concat(filled, ignore_index=True) if filled else pandas.DataFrame()


def windows_of(cell):
    """The windows of a `CellFile`, as in `Results.windows` but for the id."""
    length_s = cell.report_number("window_ns") / 1e9
    columns = {name: numpy.array(cell.window_numbers(name), dtype=float)
               for name in ("bytes", "access_s", "local_s", "bytes_moved")}
    frame = pandas.DataFrame({"window": numpy.arange(len(columns["bytes"]))})
    frame["begin_s"] = frame["window"] * length_s
    frame["end_s"] = (frame["window"] + 1) * length_s
    for name, values in columns.items():
        frame[name] = values
    frame["slowdown"] = frame["access_s"] / frame["local_s"].where(frame["local_s"] > 0)
    return frame


def resident_of(cell):
    """Bytes by place at the end of each window of a `CellFile`."""
    places, rows = cell.resident()
    frame = pandas.DataFrame(rows, columns=places, dtype=float)
    frame.insert(0, "window", numpy.arange(len(frame)))
    return frame


def routes_of(cell):
    """Bytes moved from place to place by a `CellFile`'s replay."""
    rows = []
    for route, moved in cell.numbers("bytes_by_route").items():
        source, arrow, target = route.partition(">")
        if not (source and arrow and target):
            raise ResultError(cell.path, f'"bytes_by_route.{route}" is no route')
        rows.append((source, target, float(moved)))
    return pandas.DataFrame(rows, columns=["source", "target", "bytes"])


def marks_of(cell):
    """The marks of a `CellFile`'s trace."""
    begin_ns = cell.report_number("begin_ns")
    rows = []
    for mark in cell.report_list("marks", dict):
        time_ns, text = mark.get("time_ns"), mark.get("text")
        if not isinstance(time_ns, int) or not isinstance(text, str):
            raise ResultError(cell.path, '"marks" has one without time or text')
        rows.append(((time_ns - begin_ns) / 1e9, text))
    return pandas.DataFrame(rows, columns=["time_s", "text"])


def cell_path(folder, identity):
    return pathlib.Path(folder) / "cells" / f"{identity}.json"


def ids_in_order(folder):
    """Ids as `results.csv` has them; none where there is no such file yet."""
    path = pathlib.Path(folder) / "results.csv"
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines, strict=True)
            if "id" not in (reader.fieldnames or []):
                raise ResultError(path, 'line 1: there is no column "id"')
            return [row["id"] for row in reader]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ResultError(path, f"no table: {error}") from error


def read_folder(folder):
    """See `vmart.lab.load`. Reads names here, and the files when a frame is asked for."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise ResultError(folder, "no such folder")
    experiment = read_json(folder / "experiment.json")
    written = {path.stem for path in (folder / "cells").glob("*.json")}
    named = ids_in_order(folder)
    ids = [identity for identity in named if identity in written]
    ids += sorted(written.difference(named))
    return Results(folder, experiment, ids, [each for each in named if each not in written])
