"""What the traces and policies of an experiment are: real, synthetic, or held out. Results of one kind say nothing of
another, so no mean has both."""

# The formats whose conversion depends on the seed, and the generators that do not.
DRAWING_FORMATS = {"dlrm", "servegen", "vidur"}
FIXED_GENERATORS = {"rebalance"}
# What moves nothing: it is beside all policies, unless the experiment says "static": false.
BASELINE = "static"
KINDS = {"real": "Real traces", "synthetic": "Synthetic traces", "held_out": "Held-out traces"}


def kind_of(trace):
    """Of an entry of the experiment's traces: what it says, else `synthetic` if it is generated."""
    if not isinstance(trace, dict):
        return "real"
    asked = trace.get("kind")
    if asked in KINDS:
        return asked
    return "synthetic" if "generate" in trace else "real"


def is_drawn(trace):
    """Whether an entry of the experiment's traces depends on a seed. One that does not is the same for all seeds, and
    so is each replay of it."""
    if "generate" in trace:
        return trace["generate"] not in FIXED_GENERATORS
    return trace.get("convert") in DRAWING_FORMATS


def kinds_by_trace(experiment):
    traces = experiment.get("traces")
    traces = traces if isinstance(traces, list) else []
    return {trace["name"]: kind_of(trace) for trace in traces
            if isinstance(trace, dict) and isinstance(trace.get("name"), str)}


def by_kind(all_standings):
    """The standings of each kind that there is, with its heading."""
    for kind, heading in KINDS.items():
        found = [each for each in all_standings if each.kind == kind]
        if found:
            yield heading, found
