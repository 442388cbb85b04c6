"""Who may see what: layers, the one door to each outside world, threads."""

import re

from tree import CPP, Offence

LAYERS = ["base", "driver", "machine", "sim", "memory", "migrate", "telemetry", "placement",
          "service", "lab", "abi", "python", "tools"]
PRODUCT = ("runtime/", "include/", "examples/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA = re.compile(r"^(cuda\w*\.h|nvrtc\.h|nvml\.h)$")
THREADS = re.compile(r"\bstd::(thread\b(?!::)|jthread\b|condition_variable|async\b)"
                     r"|\bpthread_create\b")
SLEEPS = re.compile(r"\bthis_thread::sleep_\w+"
                    r"|\b(usleep|nanosleep|clock_nanosleep)\s*\(|(?<!\w)::sleep\(")


def _includes(tree, *folders):
    for path in tree.paths(*folders, endings=CPP):
        for number, line in tree.lines(path):
            if match := INCLUDE.match(line):
                yield path, number, match.group(1), match.group(2)


def layer_direction(tree):
    """A layer includes itself, the public headers and the layers below it."""
    for path, number, quote, name in _includes(tree, "runtime/"):
        if quote != '"':
            continue
        own = path.split("/")[1]
        other = name.split("/")[0]
        if own not in LAYERS:
            yield Offence(path, number, f"{own} is no layer: {', '.join(LAYERS)}")
        elif "/" not in name or other not in LAYERS:
            yield Offence(path, number, f'"{name}" does not begin with the name of a layer')
        elif LAYERS.index(other) > LAYERS.index(own):
            yield Offence(path, number, f"{own} must not see {other}, which is above it")


def own_header_comes_first(tree):
    """So that a header with a source of its own is compiled alone where that source is."""
    first = {}
    for path, number, _, name in _includes(tree, "runtime/"):
        first.setdefault(path, (number, name))
    for path in tree.paths("runtime/", endings=(".cpp",)):
        header = path.removesuffix(".cpp") + ".hpp"
        number, name = first.get(path, (1, ""))
        if header in tree.files and f"runtime/{name}" != header:
            yield Offence(path, number, f"does not include {header} before all others")


def placement_is_pure(tree):
    """Policies decide from a snapshot: nothing there can reach a driver, a lock or a clock."""
    allowed = ("placement/", "base/check.hpp", "base/log.hpp", "base/units.hpp")
    for path, number, quote, name in _includes(tree, "runtime/placement/"):
        if quote == '"' and not name.startswith(allowed):
            yield Offence(path, number, f'"{name}" in placement, which sees {", ".join(allowed)}')


def users_see_public_headers_only(tree):
    """Public headers and examples know nothing of the layers."""
    # What the public interface exists to spare its users can only be shown without it.
    shows_raw_calls = "examples/naive_sequence.cpp"
    for path, number, quote, name in _includes(tree, "include/", "examples/", "tests/install/"):
        if path == shows_raw_calls or quote != '"':
            continue
        parts = name.split("/")
        if parts[0] in LAYERS or ".." in parts:
            yield Offence(path, number, f'"{name}" is internal: include <vma/...> only')


def public_headers_are_bare(tree):
    """A user's compiler needs the standard library and nothing else."""
    for path, number, _, name in _includes(tree, "include/"):
        if path == "include/vma/asio.hpp" and name.startswith("boost/asio"):
            continue
        if CUDA.match(name) or name.startswith(("boost/", "fmt/")):
            yield Offence(path, number, f"<{name}> behind a public header")


def one_door(tree):
    """Each outside world is included in one folder."""
    doors = [
        (CUDA, ("runtime/driver/", "bench/rivals/")),
        # <vma/asio.hpp> is tried as its users use it.
        (re.compile(r"^boost/asio"), ("runtime/service/", "include/vma/asio.hpp",
                                      "tests/unit/service/asio_", "tests/install/consumer/asio_")),
    ]
    for path, number, _, name in _includes(tree):
        for pattern, allowed in doors:
            if pattern.match(name) and not path.startswith(allowed):
                yield Offence(path, number, f"<{name}> outside {' and '.join(allowed)}")


def c_linkage_only_in_abi(tree):
    """The C interface is one layer and its header, and nothing else is called without mangling."""
    for path in tree.paths(*PRODUCT, "bench/", endings=CPP):
        # A policy's library is found by a name that no compiler mangles.
        if path.startswith(("runtime/abi/", "include/vma/vmart.h", "include/vma/policy.hpp",
                            "bench/rivals/")):
            continue
        for number, line in tree.code_lines(path):
            if re.search(r'\bextern\s+"C"', line):
                yield Offence(path, number, 'extern "C" outside runtime/abi, vmart.h and policy.hpp')


def threads_only_in_base(tree):
    """The simulator steps every thread and wait of the runtime: all go through base/."""
    for path in tree.paths("runtime/", "include/", endings=CPP):
        if path.startswith("runtime/base/"):
            continue
        for number, line in tree.code_lines(path):
            if match := THREADS.search(line) or SLEEPS.search(line):
                yield Offence(path, number, f"{match.group(0)} outside runtime/base")


def tests_do_not_sleep(tree):
    for path in tree.paths("tests/", "examples/", "bench/", endings=CPP):
        for number, line in tree.code_lines(path):
            if match := SLEEPS.search(line):
                yield Offence(path, number, f"{match.group(0)}: wait for the thing itself")


CHECKS = [layer_direction, own_header_comes_first, placement_is_pure, users_see_public_headers_only,
          public_headers_are_bare, one_door, c_linkage_only_in_abi, threads_only_in_base,
          tests_do_not_sleep]
