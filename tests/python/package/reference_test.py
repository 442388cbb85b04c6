#!/usr/bin/env python3
"""docs/reference/python.md has every public name, each in an example, and the examples are one program
that runs. Argument: the page."""

import inspect
import io
import pathlib
import re
import sys
import unittest
from contextlib import redirect_stdout

import vmart
from vmart import errors, memory, moving, place, runtime

PAGE = pathlib.Path(sys.argv.pop(1)).read_text(encoding="utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
# What needs a library, or is described on a page of its own.
ELSEWHERE = {"MemoryResource", "cuda_core", "cupy", "lab", "numba", "numpy", "torch", "vllm"}


def public_names():
    listed = {name for part in (errors, memory, moving, place, runtime) for name in part.__all__}
    return listed | {name for name in dir(vmart) if not name.startswith("__")} | {"__version__"}


def members(kind):
    return [name for name, value in vars(kind).items() if not name.startswith("_") and (
        callable(value) or isinstance(value, property))]  # fmt: skip


class Reference(unittest.TestCase):
    def test_has_each_public_name_and_an_example_of_it(self):
        for name in public_names() - {"Policy"}:
            self.assertRegex(PAGE, rf"(`|\b){re.escape(name)}\b", f"vmart.{name} is not on the page")
        missing = [name for name in public_names() - ELSEWHERE
                   if not re.search(rf"\bvmart\.{re.escape(name)}\b", EXAMPLES)]  # fmt: skip
        self.assertEqual(missing, [], "no example has them")

    def test_has_the_members_of_what_calls_return(self):
        for kind in (vmart.Allocation, vmart.Array, vmart.Pool, vmart.Migration, vmart.Guards, vmart.Extent):
            own = set(members(kind)) - {"array", "elements", "typestr", "offset", "migrate"}
            missing = [name for name in own if not re.search(rf"`[^`]*\b{name}\b", PAGE)]
            self.assertEqual(missing, [], kind.__name__)

    def test_has_the_arguments_of_each_function(self):
        for name in ("alloc", "empty", "make_pool", "reserve", "set_capacity", "drain", "calibrate", "park", "resume",
                     "advise", "record_use", "on_move", "attach", "migrate", "migrate_async", "open_runtime"):  # fmt: skip
            shown = re.search(rf"`{name}\(([^`]*)\)`", PAGE)
            self.assertIsNotNone(shown, name)
            for argument in inspect.signature(getattr(vmart, name)).parameters.values():
                if argument.kind is not argument.VAR_KEYWORD:
                    self.assertRegex(shown[1], rf"\b{argument.name}\b", name)

    def test_its_examples_run(self):
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(EXAMPLES, "the examples", "exec"), {"__name__": "__main__"})
        self.assertNotRegex(printed.getvalue(), r" object at 0x", "a repr says nothing")

    def test_each_function_says_what_it_does(self):
        silent = [name for name in public_names()
                  if callable(getattr(vmart, name, None)) and not getattr(vmart, name).__doc__]
        self.assertEqual([name for name in silent if not isinstance(getattr(vmart, name), type)], [])


class Names(unittest.TestCase):
    def test_dir_shows_what_users_call_and_nothing_else(self):
        shown = set(dir(vmart))
        self.assertEqual(shown & {"Any", "TYPE_CHECKING", "importlib", "annotations", "Path", "moving", "memory",
                                  "place", "runtime", "errors", "error_of"}, set())  # fmt: skip
        self.assertLessEqual({"alloc", "Extent", "get_include", "migrate", "OutOfMemory", "targets"}, shown)
        self.assertNotIn("location_text", shown)


if __name__ == "__main__":
    unittest.main()
