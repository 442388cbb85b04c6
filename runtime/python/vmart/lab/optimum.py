"""The exact bound of a trace: the optimum of the program that `vmart-lab bounds --lp` wrote, found by
the solver HiGHS."""

import dataclasses
import math
import os
import pathlib

from vmart.lab.errors import ResultError, library

SECONDS = 600.0
GAP = 1e-6
FIRST_LINE = b"\\ vmart-lab bounds: "
LAST_LINE = b"\nEnd\n"
MICROSECONDS = b"microseconds:"


@dataclasses.dataclass(frozen=True)
class Optimum:
    """No placement costs less than `bound_s`, one costs `solution_s`: None where none was found yet.
    `optimal`: no more than the gap that was asked for is between them."""

    bound_s: float | None
    solution_s: float | None
    optimal: bool

    @property
    def gap(self):
        """(solution - bound) / bound; None where there is no such number."""
        if self.solution_s is None or not self.bound_s:
            return None
        return max(0.0, self.solution_s - self.bound_s) / self.bound_s


def check_file(path):
    """HiGHS takes half of a file for a whole one, and any program for ours."""
    with path.open("rb") as file:
        first, _, unit = file.readline(), file.readline(), file.readline()
        if not first.startswith(FIRST_LINE) or unit.strip() != MICROSECONDS:
            raise ResultError(path, "is no program that vmart-lab bounds --lp wrote")
        file.seek(-len(LAST_LINE), os.SEEK_END)
        if file.read() != LAST_LINE:
            raise ResultError(path, "ends early")


def solve(path, seconds=SECONDS, gap=GAP):
    """The Optimum of the program in the file `path`, after about `seconds` at most: HiGHS looks
    at its clock now and then.

    Raises ResultError, which names the file, if it is no such program, no placement keeps to its
    capacities, or HiGHS fails, and MissingLibrary without highspy.
    """
    if not seconds > 0 or not 0 <= gap < 1:
        raise ValueError(f"needs seconds above 0 and a gap from 0 to below 1, not {seconds} and {gap}")
    path = pathlib.Path(path)
    check_file(path)
    highspy = library("highspy")
    solver = highspy.Highs()
    solver.HandleKeyboardInterrupt = True  # Else Ctrl-C waits for the solver.
    options = {"output_flag": False, "time_limit": float(seconds), "mip_rel_gap": float(gap),
               "mip_abs_gap": 0.0}
    for option, value in options.items():
        require(path, solver.setOptionValue(option, value), f"option {option}")
    require(path, solver.readModel(str(path)), "it cannot be read")
    require(path, solver.run(), "it cannot be solved")
    return outcome(path, highspy.HighsModelStatus, solver)


def require(path, status, what):
    if status.name == "kError":
        raise ResultError(path, f"HiGHS: {what}")


def outcome(path, statuses, solver):
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
        raise ResultError(path, "no placement keeps to the capacities")
    if status not in (statuses.kOptimal, statuses.kTimeLimit):
        raise ResultError(path, f"HiGHS: {solver.modelStatusToString(status)}")
    optimal = status == statuses.kOptimal
    feasible = info.primal_solution_status == 2  # kSolutionStatusFeasible
    solution = info.objective_function_value / 1e6 if feasible else None
    # Without a variable that has to be whole HiGHS knows no such bound.
    whole = any(kind.name == "kInteger" for kind in solver.getLp().integrality_)
    bound = info.mip_dual_bound / 1e6 if whole else (solution if optimal else None)
    return Optimum(bound if bound is not None and math.isfinite(bound) else None, solution, optimal)


def print_optimum(optimum, say=print):
    def number(value):
        return "-" if value is None else f"{value:.9f}"

    say(f"bound_s     {number(optimum.bound_s)}")
    say(f"solution_s  {number(optimum.solution_s)}")
    say(f"gap         {'-' if optimum.gap is None else f'{optimum.gap:.3g}'}")
    say(f"optimal     {'yes' if optimum.optimal else 'no: the time was over before'}")
