"""A plugin of pytest: writes each outcome to the file SUITE_RESULTS at once, as a line of JSON, so that what was
known is still known if the run is killed. Lines {"used": N} say how often vmart was asked for memory."""

import json
import os
import re

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Warning|Exit)\b")


def note(**line):
    """One write: workers share the file."""
    path = os.environ.get("SUITE_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _last_line(report):
    """Of the error; and of what was written to standard error, by a process that the test started perhaps."""
    lines = [line for line in str(report.longrepr or "").splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    errors = [line for line in errors if _RAISED.match(line)] or errors[:1]  # Not what else pytest shows of them.
    written = [line for line in getattr(report, "capstderr", "").splitlines() if line.strip()]
    return "; ".join(part[-1].strip()[:200] for part in (errors or lines, written) if part)


class Recorder:
    """Only where all reports come together, which is not in a worker of xdist."""

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "passed"  # An expected failure.
        if report.when == "call" or outcome != "passed":
            error = _last_line(report) if outcome == "failed" else ""
            note(test=report.nodeid, outcome=outcome, error=error)

    def pytest_collectreport(self, report):
        if report.failed:
            note(test=f"{report.nodeid} (not loaded)", outcome="failed", error=_last_line(report))


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "vmart_recorder")
