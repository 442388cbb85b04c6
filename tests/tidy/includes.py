"""Who may see what: folders, the one door to each outside world, threads."""

import re

from tree import CPP, Offence

# The folders of runtime/, lowest first, each with those whose headers it includes. A new edge is a
# decision: it is made here, and only to a folder that stands above.
SEES = {
    "base/loader": "",
    "base": "base/loader",
    "driver/kernels": "",
    "driver/rm": "base base/loader",
    "driver": "base driver/kernels driver/rm",
    "machine": "base driver",
    "sim": "base driver machine",
    "memory": "base driver machine",
    "pools": "base driver machine memory",
    "migrate/stops/kernels": "",
    "migrate/stops": "base driver memory migrate/stops/kernels",
    "migrate/gates": "base driver machine memory migrate/stops",
    "migrate/copying/kernels": "",
    "migrate/copying": "base driver machine memory migrate/stops migrate/copying/kernels",
    "migrate/migration": "base driver machine memory migrate/stops migrate/gates migrate/copying",
    "migrate/live": "base driver machine memory migrate/stops migrate/gates migrate/copying "
                    "migrate/migration",
    "migrate/moves": "base driver machine memory migrate/stops migrate/copying migrate/migration "
                     "migrate/live",
    "entry_points": "",
    "guards": "base base/loader driver entry_points migrate/stops",
    "telemetry": "base machine memory",
    "placement/books": "base",
    "placement/planning": "base placement/books",
    "placement/deciding": "base placement/books placement/planning",
    "placement/weighing": "base",
    "placement/auto": "base placement/weighing",
    "placement/policies": "base placement/weighing placement/auto",
    "costs": "base driver machine sim placement/books",
    "recording": "base placement/books placement/planning costs",
    "recording/reading": "recording",
    "scheduling": "base driver machine memory migrate/stops migrate/migration migrate/moves telemetry "
                  "placement/books placement/planning placement/deciding placement/policies "
                  "costs recording",
    "backings": "base memory",
    "parking": "base memory migrate/moves",
    "control": "base memory migrate/migration placement/planning",
    "sharing": "base driver machine memory migrate/stops migrate/migration migrate/moves control",
    "cpu_faults": "base machine memory migrate/stops migrate/migration migrate/moves",
    "runtime": "base driver machine sim memory backings pools migrate/stops migrate/copying "
               "migrate/migration migrate/moves guards telemetry placement/policies costs recording "
               "scheduling parking control sharing cpu_faults",
    "calibration/kernels": "",
    "calibration": "base memory costs runtime calibration/kernels",
    "measuring": "base driver machine sim placement/books costs runtime calibration",
    "lab/policies": "base placement/weighing placement/auto placement/policies",
    "lab/trace": "base recording",
    "lab/generate": "lab/trace",
    "lab/import": "base machine recording/reading lab/trace lab/generate",
    "lab/routing": "machine lab/trace",
    "lab/traffic": "base",
    "lab/replay": "base machine sim migrate/stops telemetry placement/books placement/planning "
                  "placement/deciding placement/weighing placement/policies costs lab/trace "
                  "lab/routing lab/traffic",
    "lab/bounds/loops": "lab/trace lab/routing lab/traffic lab/replay",
    "lab/bounds": "lab/trace lab/routing lab/traffic lab/replay lab/bounds/loops",
    "lab/bounds/program": "base lab/trace lab/bounds",
    "lab/fidelity": "base placement/books placement/weighing lab/policies costs recording "
                    "scheduling lab/trace lab/import lab/replay",
    "lab/experiments": "base machine lab/policies placement/policies costs scheduling lab/trace lab/generate "
                       "lab/import lab/routing lab/replay lab/bounds lab/fidelity",
    "simcuda": "base driver/kernels driver/rm driver machine sim migrate/stops migrate/copying entry_points calibration",
    "abi": "base migrate/stops runtime",
    "interpose/work": "base entry_points",
    "interpose": "abi base entry_points interpose/work",
    "interpose/graphs": "abi base entry_points interpose interpose/work",
    "interpose/hooks": "base base/loader entry_points interpose interpose/graphs interpose/work",
    "python": "",
    "python/core": "",
    "python/lab_core": "python/core scheduling lab/policies placement/policies lab/trace lab/generate lab/experiments",
    "tools/command_line": "abi base",
    "tools/vmart": "tools/command_line base driver machine placement/books placement/policies costs "
                   "control runtime measuring",
    "tools/vmart-lab": "tools/command_line base machine placement/books costs scheduling runtime "
                       "measuring lab/policies lab/trace lab/generate lab/import lab/routing lab/replay lab/bounds "
                       "lab/bounds/program lab/experiments lab/fidelity",
}
LAYERS = {folder.split("/")[0] for folder in SEES}
PRODUCT = ("runtime/", "include/", "examples/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CCCL = re.compile(r"^(cuda|cub|thrust)/")
CCCL_HEADERS = ("include/vma/memory_resource.hpp", "include/vma/thrust_allocator.hpp")
CUDA = re.compile(r"^(cuda\w*\.h|nvrtc\.h|nvml\.h)$")
THREADS = re.compile(r"\bstd::(thread\b(?!::)|jthread\b|condition_variable|async\b)"
                     r"|\bpthread_create\b")
GIL = re.compile(r"\bgil_scoped_release\b|\bPyEval_(?:Save|Restore)Thread\b|\bPy_(?:BEGIN|END)_ALLOW_THREADS\b")
SLEEPS = re.compile(r"\bthis_thread::sleep_\w+"
                    r"|\b(usleep|nanosleep|clock_nanosleep)\s*\(|(?<!\w)::sleep\(")


def _includes(tree, *folders):
    for path in tree.paths(*folders, endings=CPP):
        for number, line in tree.lines(path):
            if match := INCLUDE.match(line):
                yield path, number, match.group(1), match.group(2)


def edges_are_allowed(tree):
    """A folder includes itself, the public headers and what SEES says."""
    for path, number, quote, name in _includes(tree, "runtime/"):
        if quote != '"':
            continue
        own, other = _folder(path.removeprefix("runtime/")), _folder(name)
        if own not in SEES:
            yield Offence(path, number, f"{own} is no folder of SEES in tests/tidy/includes.py")
        elif other not in SEES:
            yield Offence(path, number, f'"{name}" does not begin with a folder of runtime/')
        elif other != own and other not in SEES[own].split():
            yield Offence(path, number, f"{own} must not see {other}; it sees {SEES[own]}")


def no_circles(tree):
    """Two folders, or two files, that need each other are one. Reports one include of each circle."""
    for name_of in (_folder, _unit):
        yield from _circles(tree, name_of)


def _circles(tree, name_of):
    edges = {}
    for path, number, quote, name in _includes(tree, "runtime/"):
        own, other = name_of(path.removeprefix("runtime/")), name_of(name)
        if quote == '"' and other and other != own:
            edges.setdefault(own, {}).setdefault(other, (path, number))
    reported = set()
    for own in sorted(edges):
        for other, (path, number) in sorted(edges[own].items()):
            circle = _way(edges, other, own)
            if circle and not reported & set(circle):
                reported |= set(circle)
                yield Offence(path, number, "a circle: " + " -> ".join([own, *circle]))


def _unit(path):
    """A header and its source."""
    return re.sub(r"\.[hc]pp$", "", path)


def _folder(path):
    return path.rpartition("/")[0]


def _way(edges, start, end):
    """What lies from `start` to `end`, both included; none if no include leads there."""
    ways = {start: [start]}
    waiting = [start]
    while waiting and end not in ways:
        at = waiting.pop(0)
        for following in sorted(set(edges.get(at, {})) - set(ways)):
            ways[following] = [*ways[at], following]
            waiting.append(following)
    return ways.get(end)


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
    allowed = ("placement/", "base/check.hpp", "base/log.hpp", "base/nearest_name.hpp", "base/printable.hpp",
               "base/units.hpp", "base/vectors.hpp")
    for path, number, quote, name in _includes(tree, "runtime/placement/"):
        if quote == '"' and not name.startswith(allowed):
            yield Offence(path, number, f'"{name}" in placement, which sees {", ".join(allowed)}')


def users_see_public_headers_only(tree):
    """Public headers and examples know nothing of the layers."""
    # What the public interface exists to spare its users can only be shown without it.
    shows_raw_calls = "examples/naive_sequence.cpp"
    # Found beside the example, so that `-Iinclude` is all that a compiler needs.
    kernels = ("../tests/support/read_kernel.hpp", "../tests/support/test_kernels.hpp")
    for path, number, quote, name in _includes(tree, "include/", "examples/", "tests/install/"):
        if path == shows_raw_calls or quote != '"' or name in kernels:
            continue
        parts = name.split("/")
        if parts[0] in LAYERS or ".." in parts:
            yield Offence(path, number, f'"{name}" is internal: include <vma/...> only')


def public_headers_are_bare(tree):
    """A user's compiler needs the standard library and nothing else."""
    for path, number, _, name in _includes(tree, "include/"):
        if path == "include/vma/asio.hpp" and name.startswith("boost/asio"):
            continue
        if path in CCCL_HEADERS and CCCL.match(name):
            continue
        if CUDA.match(name) or CCCL.match(name) or name.startswith(("boost/", "fmt/")):
            yield Offence(path, number, f"<{name}> behind a public header")


def one_door(tree):
    """Each outside world is included in one folder."""
    doors = [
        (CUDA, ("runtime/driver/", "runtime/entry_points/", "runtime/guards/", "runtime/interpose/", "bench/rivals/",
                "tests/gpu/copies/", "tests/guards/", "tests/gpu/pools/cuda_allocator.cpp", "runtime/simcuda/", "tests/simcuda/",
                "tests/run/")),
        (re.compile(r"^nvtx3/"), ("runtime/base/nvtx.cpp", "tests/unit/base/nvtx_")),
        (CCCL, CCCL_HEADERS + ("tests/unit/memory_resource/", "tests/install/consumer/cccl_",
                               "examples/memory_resource.cpp")),
        # <vma/asio.hpp> is tried as its users use it.
        (re.compile(r"^boost/asio"), ("runtime/scheduling/", "runtime/control/", "runtime/sharing/",
                                      "include/vma/asio.hpp",
                                      "tests/unit/control/asio_", "tests/unit/runtime/asio_",
                                      "tests/install/consumer/asio_")),
    ]
    for path, number, _, name in _includes(tree):
        for pattern, allowed in doors:
            if pattern.match(name) and not path.startswith(allowed):
                yield Offence(path, number, f"<{name}> outside {' and '.join(allowed)}")


def c_linkage_only_in_abi(tree):
    """The C interface is one layer and its header, and nothing else is called without mangling."""
    for path in tree.paths(*PRODUCT, "bench/", endings=CPP):
        # A policy's library is found by a name that no compiler mangles.
        # The symbols of the driver that `vmart run` puts before the driver's.
        if path.startswith(("runtime/abi/", "runtime/entry_points/", "runtime/guards/", "runtime/interpose/", "runtime/simcuda/",
                            "include/simcuda/kernels.hpp", "include/vma/vmart", "include/vma/policy.hpp",
                            "bench/rivals/")):
            continue
        for number, line in tree.code_lines(path):
            if re.search(r'\bextern\s+"C"', line):
                yield Offence(path, number, 'extern "C" outside runtime/abi, vmart*.h and policy.hpp')


def threads_only_in_base(tree):
    """The simulator steps every thread and wait of the runtime: all go through base/."""
    for path in tree.paths("runtime/", "include/", endings=CPP):
        # Threads of the program that `vmart run` pauses are nobody's to step.
        if path.startswith(("runtime/base/", "runtime/interpose/process.cpp")):
            continue
        for number, line in tree.code_lines(path):
            if match := THREADS.search(line) or SLEEPS.search(line):
                yield Offence(path, number, f"{match.group(0)} outside runtime/base")


def one_way_to_release_the_gil(tree):
    """Taking it back while the interpreter ends must not unwind the thread: `Unlocked` sees to that."""
    for path in tree.paths("runtime/", endings=CPP):
        for number, line in tree.code_lines(path):
            if path != "runtime/python/core/interpreter.hpp" and (match := GIL.search(line)):
                yield Offence(path, number, f"{match.group(0)} outside class Unlocked")


def tests_do_not_sleep(tree):
    for path in tree.paths("tests/", "examples/", "bench/", endings=CPP):
        for number, line in tree.code_lines(path):
            if match := SLEEPS.search(line):
                yield Offence(path, number, f"{match.group(0)}: wait for the thing itself")


CHECKS = [edges_are_allowed, no_circles, own_header_comes_first, placement_is_pure,
          users_see_public_headers_only, public_headers_are_bare, one_door, c_linkage_only_in_abi,
          threads_only_in_base, one_way_to_release_the_gil, tests_do_not_sleep]
