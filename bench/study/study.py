#!/usr/bin/env python3
"""Makes the study of policies: runs its experiments, and writes the tables and figures of docs/results/study.md.

    bench/study/study.py --out FOLDER              all of it; a run that was interrupted goes on
    bench/study/study.py --out FOLDER --only NAME  one experiment; of the others, what was kept
    bench/study/study.py --out FOLDER --policy auto  the cells of a policy that has changed; the others as they were kept
    bench/study/study.py --out FOLDER --tables-only   of folders in which all cells have finished
    bench/study/study.py --check                   whether the tables are those of docs/measurements/study.csv

The experiments are bench/experiments/NAME.json: `study` (all policies, real traces), `study_generated` (all
policies, generated traces, several seeds), `study_whole` (the default policy, whole traces) and `study_machines`
(the best ones on other machines). What the tables are made of is kept in docs/measurements/study.csv, a row a cell. Tables stand between
`<!-- study:begin NAME -->` and `<!-- study:end -->`, where NAME is one of `study_tables.TABLES`. The figures
need matplotlib; without it they are left as they are, and that is said.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "bench"))
import study_cells
import study_plots
import study_tables
from harness import plots
from harness.measuring_context import commit, is_changed
from harness.programs import parser_of

NAMES = (study_tables.POLICIES, study_tables.GENERATED, study_tables.WHOLE, study_tables.MACHINES)
MARKED = re.compile(r"(<!-- study:begin (\w+) -->\n).*?(<!-- study:end -->)", re.DOTALL)


def table_in(document, name):
    """The table of this name that the document has. Throws StudyError if it has none."""
    found = [each for each in MARKED.finditer(document.read_text(encoding="utf-8")) if each[2] == name]
    if not found:
        raise study_cells.StudyError(f"{document}: has no table {name}")
    return found[0][0].removeprefix(found[0][1]).removesuffix(found[0][3]).strip("\n")


def with_tables(document, draw):
    """The text of the document with `draw(name)` between the markers of each table."""
    return MARKED.sub(lambda found: f"{found[1]}\n{draw(found[2])}\n\n{found[3]}", document.read_text(encoding="utf-8"))


class Pages:
    """Where the study is written, below the folder `root`/docs."""

    def __init__(self, root):
        self.document = root / "docs" / "results" / "study.md"
        self.table = root / "docs" / "measurements" / "study.csv"
        self.images = root / "docs" / "images"

    def kept(self):
        """The study that was written before; an empty one if there is none."""
        return study_cells.read_table(self.table) if self.table.exists() else study_cells.Study([])

    def table_of(self, name):
        return table_in(self.document, name)

    def written(self, study):
        """The document with the tables of `study`. Throws StudyError for a marker nobody knows, and where an
        experiment is missing."""
        def table(name):
            draw = study_tables.TABLES.get(name)
            if draw is None:
                raise study_cells.StudyError(f"{self.document}: there is no table {name}")
            try:
                return draw(study)
            except KeyError as error:
                raise study_cells.StudyError(f"{self.table}: has no cells of {error}") from error
        return with_tables(self.document, table)

    def write(self, study):
        study.write(self.table)
        # From what was kept, so that `--check` makes the same of it.
        study = study_cells.read_table(self.table)
        self.document.write_text(self.written(study), encoding="utf-8")
        if plots.has_matplotlib():
            study_plots.draw_all(study, self.images)
        else:
            print("study: matplotlib is not installed: the figures are left as they are", file=sys.stderr)

    def differ(self):
        """The first line of the document that the kept table does not bear out; None if all do."""
        text = self.document.read_text(encoding="utf-8")
        wanted = self.written(study_cells.read_table(self.table))
        pairs = zip(text.splitlines() + [""], wanted.splitlines() + [""])
        for number, (here, there) in enumerate(pairs, 1):
            if here != there:
                return f"{self.document}: line {number}: is \"{here}\", should be \"{there}\""
        return None if len(text.splitlines()) == len(wanted.splitlines()) else f"{self.document}: is cut"


def made_at(named=None):
    """Of what commit results are: the one that is `named`, or checked out."""
    if named:
        return f"commit `{named}`"
    return f"commit `{commit() or 'unknown'}`{' with local changes' if is_changed() else ''}"


def find_program(named):
    for program in [named] if named else [str(ROOT / "build/release/runtime/tools/vmart-lab"), "vmart-lab"]:
        found = shutil.which(program)
        if found:
            return found
    raise study_cells.StudyError(f"{named or 'vmart-lab'} is no program; --vmart-lab names it")


def run_experiment(program, experiment, folder, jobs=None):
    """Throws StudyError unless all cells have finished."""
    command = [program, "run", str(experiment), "--out", str(folder), "--no-report", *(["--jobs", str(jobs)] if jobs else [])]
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise study_cells.StudyError(f"{' '.join(command)}: exit status {done.returncode}; what has "
                                     "finished is kept, and the same command goes on")


def reduced(experiment, folder, leave_out=(), **changes):
    """The file of an experiment with other members, less some traces, without bounds, in `folder`."""
    asked = json.loads(experiment.read_text(encoding="utf-8"))
    asked["traces"] = [trace for trace in asked["traces"] if trace["name"] not in leave_out]
    for trace in asked["traces"]:
        if "input" in trace:
            trace["input"] = str((experiment.parent / trace["input"]).resolve())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / experiment.name
    path.write_text(json.dumps({**asked, **changes, "static": False, "bounds": False}), encoding="utf-8")
    return path


def parser_of_pages(about):
    """What writes pages takes."""
    parser = parser_of(about)
    parser.add_argument("--out", type=pathlib.Path, help="where the results go, or lie")
    parser.add_argument("--vmart-lab", metavar="PATH", help="the program; else that of build/release, "
                        "or the one in PATH")
    parser.add_argument("--made", help="of what commit the results are, if not of the one that is checked out")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="whose docs are written")
    parser.add_argument("--check", action="store_true", help="writes nothing")
    return parser


def parsed(parser, words):
    arguments = parser.parse_args(words)
    if (arguments.out is None) != arguments.check:
        parser.error("either --out FOLDER or --check")
    return arguments


def arguments_of(words):
    parser = parser_of_pages(__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="these experiments")
    parser.add_argument("--policy", nargs="+", default=[], help="the cells of these policies; of the others, what "
                        "was kept")
    parser.add_argument("--experiments", type=pathlib.Path, default=ROOT / "bench" / "experiments",
                        help="the folder with the experiments' files")
    parser.add_argument("--tables-only", action="store_true", help="runs nothing")
    return parsed(parser, words)


def main(words=None):
    arguments = arguments_of(words)
    pages = Pages(arguments.root)
    try:
        if arguments.check:
            difference = pages.differ()
            if difference:
                print(f"study: {difference}", file=sys.stderr)
            return 1 if difference else 0
        study = pages.kept()
        for name in arguments.only:
            folder = arguments.out / name
            if not arguments.tables_only:
                experiment = arguments.experiments / f"{name}.json"
                if arguments.policy:
                    experiment = reduced(experiment, arguments.out, policies=arguments.policy)
                run_experiment(find_program(arguments.vmart_lab), experiment, folder)
            made = made_at(arguments.made)
            if arguments.policy:
                again = study_cells.condense_again(study.experiments[name], folder, arguments.policy, made)
            else:
                again = study_cells.condense(name, folder, f"`bench/experiments/{name}.json`, {made}")
            study = study.replaced(again)
        pages.write(study)
    except (study_cells.StudyError, OSError, ValueError) as error:
        print(f"study: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
