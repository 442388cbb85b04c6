"""The command `vmart-lab run`, which is `python3 -m vmart.lab run`."""

import contextlib
import re
import signal
import sys

from vmart.lab.errors import ExperimentError, ResultError
from vmart.lab.experiments.experiment import cells_of
from vmart.lab.experiments.progress import Progress
from vmart.lab.experiments.reader import read_experiment
from vmart.lab.experiments.run import processors, run_read
from vmart.lab.experiments.traces import files_of
from vmart.lab.experiments.worker import STOP_SIGNALS, Refusal, WorkerPool, find_program

SOME_FAILED = 1
INTERRUPTED = 130
JOBS_MAX = 4096
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")  # Could control a terminal. Lines may end.


def add_arguments(run):
    run.add_argument("experiment", help="an experiment file (JSON); see docs/guide/experiments.md")
    run.add_argument("--out", metavar="FOLDER", help="folder for the results")
    run.add_argument("--jobs", type=int, metavar="N",
                     help="cells to run in parallel; default: the number of processors")
    run.add_argument("--only", action="append", default=[], metavar="ID",
                     help="run only this cell; may be repeated")
    run.add_argument("--list", action="store_true", help="print the ids of the cells and exit")
    run.add_argument("--list-files", action="store_true",
                     help="print the input files of its traces and exit")
    run.add_argument("--no-report", action="store_true", help="do not write the report")
    run.add_argument("--program", metavar="PATH", help="vmart-lab; default: the installed one")
    run.set_defaults(run=lambda arguments: run_command(run, arguments))


def run_command(parser, arguments):
    """Returns the exit status: 1 if a cell failed or something was refused, 130 if a signal ended the run."""
    if not (arguments.out or arguments.list or arguments.list_files):
        parser.error("--out FOLDER is required")
    if arguments.jobs is not None and not 1 <= arguments.jobs <= JOBS_MAX:
        parser.error(f"--jobs {arguments.jobs} is not between 1 and {JOBS_MAX}")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Before cells run, it ends the program without a traceback.
    try:
        with WorkerPool(arguments.program or find_program(), arguments.jobs or processors()) as pool:
            return run_with(pool, arguments)
    except (ExperimentError, Refusal) as error:
        say(plain(str(error)))
        return SOME_FAILED


def run_with(pool, arguments):
    experiment = read_experiment(arguments.experiment, pool.workers[0])
    if arguments.list:
        print_lines([cell.id for cell in cells_of(experiment)])
    elif arguments.list_files:
        print_lines([f"{trace.name}\t{file}" for trace in experiment.traces
                     for file in files_of(trace, pool.workers[0])])
    else:
        return run_cells(experiment, pool, arguments)
    return 0


def print_lines(lines):
    """Ends the program without a word once nobody reads them."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)


def run_cells(experiment, pool, arguments):
    progress = Progress()
    with stopping_at_signals(progress, pool):
        outcome = run_read(experiment, arguments.out, pool, arguments.only, progress)
    progress.end()
    tell(outcome, arguments.out)
    if outcome.stopped:
        return INTERRUPTED
    report = not arguments.no_report and not arguments.only and outcome.finished > 0
    reported = not report or write_report(arguments.out)
    return 0 if outcome.all_went_well and reported else SOME_FAILED


@contextlib.contextmanager
def stopping_at_signals(progress, pool):
    """The first signal lets running cells finish; a second one ends the program at once, and all that it has
    started."""
    def stop(number, _):
        if progress.stopped:
            pool.kill()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        progress.stopped = True

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(outcome, folder):
    for identity, reason in outcome.failed_bounds.items():
        say(f"the bound {identity} failed: {reason}")
    for identity, reason in outcome.failed.items():
        say(f"{identity} failed: {reason}")
    parts = [f"{outcome.finished} of {outcome.cells} cells are finished"]
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} failed")
    if outcome.without_bound:
        parts.append(f"{outcome.without_bound} are waiting for a bound")
    rest = "; run the same command to continue" if outcome.stopped else ""
    print(f"{', '.join(parts)}{rest}: {folder}", flush=True)


def write_report(folder, say_path=print):
    """Returns False if it failed. Missing libraries are not a failure: a line says how to get the report."""
    try:
        from vmart.lab.report import write_report as write

        write(folder, say=say_path)
    except ImportError as error:
        print(f"vmart.lab: {error}\nno report: python3 cannot import vmart.lab and its dependencies; install them and "
              f"run python3 -m vmart.lab report {folder}", file=sys.stderr)
    except (ResultError, ValueError, OSError) as error:
        print(f"vmart.lab: {error}", file=sys.stderr)
        say("the report failed with 1")
        return False
    return True


def plain(message):
    """A message of the program without the call that failed, which has no spaces, and with places as a shell
    takes them."""
    message = re.sub(r"\A[^ ]*?: invalid_argument: ", "", message)
    return re.sub(r"\b(gpu|host)\(([0-9]+)\)", r"\1\2", message)


def say(message):
    print(f"vmart-lab: {CONTROLS.sub('?', message)}", file=sys.stderr)
