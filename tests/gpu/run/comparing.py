"""Compares what a program printed under `vmart run` with what it printed without."""

import difflib
import re
from dataclasses import replace

# What no run of a sample prints twice: times, rates, addresses, process numbers.
VOLATILE = [(re.compile(pattern), "#") for pattern in (
    r"0x[0-9a-fA-F]+", r"\bpid \d+", r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?", r"[-+]?\d+[eE][-+]?\d+",
    r"\b\d+ ?(?=(?:ms|us|ns|s|sec|msec|seconds|[GMK]i?B/s|[GT]?[Ff]lops?)\b)",
    r" +")]
VERDICT = re.compile(r"\b(pass(ed)?|fail(ed|ure)?|errors?|ok|success(ful)?|correct|mismatch\w*|"
                     r"valid|Test (complete|PASSED|FAILED))\b", re.IGNORECASE)
# A subtest that failed is named beside its test, which may have passed.
PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|SUBFAILED)(?:[(\[].*?[)\]])? (\S+)",
                    re.MULTILINE)
SHOWN = 12


def whole(text):
    return text.splitlines()


def sample(text):
    """Lines without what differs from run to run."""
    lines = []
    for line in text.splitlines():
        for pattern, sign in VOLATILE:
            line = pattern.sub(sign if pattern.pattern != " +" else " ", line)
        lines.append(line.strip())
    return lines


def verdicts(text):
    return [line for line in sample(text) if VERDICT.search(line)]


def tests(text):
    """Each test and how it ended. Skipped ones have no name in pytest's summary."""
    return sorted(f"{name} {result}" for result, name in PYTEST.findall(text)
                  if result != "SKIPPED")


def nccl(text):
    """Of each row the size and the errors, in place and not; and whether the limits were kept."""
    lines = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 13 and fields[0].isdigit():
            lines.append(" ".join((*fields[:5], "errors", fields[8], fields[12])))
        elif "Out of bounds" in line:
            lines.append(line)
    return lines


VIEWS = {"nccl": nccl, "exact": whole, "sample": sample, "verdict": verdicts, "pytest": tests}


def view(program, outcome):
    """What of a run has to be the same: its exit code is the first line."""
    lines = [line for line in VIEWS[program.compare](outcome.out)
             if not any(re.search(pattern, line) for pattern in program.ignored)]
    return [f"exit {ended(program, outcome)}", *lines]


def ended(program, outcome):
    """pytest leaves with 1 if a test fails, which its line says; any other code means that it did not come so far."""
    if program.compare == "pytest" and outcome.exit in (0, 1):
        return "after all tests"
    return outcome.exit


def difference(program, bare, other):
    """Empty if both runs show the same, else the first lines that differ."""
    wanted, found = view(program, bare), view(program, other)
    if wanted == found:
        return ""
    lines = [line for line in difflib.unified_diff(wanted, found, "bare", "vmart run", "", "", 0, "")
             if not line.startswith("@@")]
    rest = f"\n... {len(lines) - SHOWN} lines more" if len(lines) > SHOWN else ""
    return "\n".join(line[:200] for line in lines[:SHOWN]) + rest


def settled(program, bare, again):
    """The program, compared by what two bare runs have in common: of tests, those that ended in the same
    way; of a sample, its verdicts. Empty if even that differs."""
    if not difference(program, bare, again):
        return program
    if program.compare == "pytest":
        unstable = set(view(program, bare)) ^ set(view(program, again))
        names = {re.escape(line.split(" ")[0]) for line in unstable if not line.startswith("exit ")}
        return replace(program, ignored=(*program.ignored, *(f"^{name} " for name in names)))
    looser = replace(program, compare="verdict")
    if program.compare == "sample" and not difference(looser, bare, again) and \
            not is_unjudged(looser, bare):
        return looser
    return None


def is_unjudged(program, outcome):
    """A run that shows nothing to compare proves nothing, whatever it is equal to."""
    return len(view(program, outcome)) < 2
