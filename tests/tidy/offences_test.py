"""Plants one offence for each rule and sees it caught, and a clean neighbour let through."""

import unittest

import building
import documents
import includes
import ratchets
import sizes
from tidy import CHECKS
from tree import Tree, strip_cpp

QUESTIONS = "docs/internals/where_is_what.md"
QUESTION_ROW = "| Where? | [a](../../a.cpp) | `open_gate` | [b](b.md) |\n"
ARCHITECTURE = "docs/internals/architecture.md"
THREE_DRAWINGS = "```\n|\n```\n\n" * 3
LONG_BODY = "  step();\n" * 70


def planted(check, files):
    return [(offence.path, offence.line) for offence in check(Tree(files))]


# (check, an offending tree, path and line of the offence, the tree made good)
CASES = [
    (includes.edges_are_allowed,
     {"runtime/memory/a.hpp": '#pragma once\n#include "migrate/gates/gate.hpp"\n'},
     ("runtime/memory/a.hpp", 2),
     {"runtime/migrate/gates/a.hpp": '#include "memory/chunk.hpp"\n#include <vma/error.hpp>\n'}),
    (includes.edges_are_allowed,
     {"runtime/lab/replay/a.cpp": '#include "control/control_server.hpp"\n'},
     ("runtime/lab/replay/a.cpp", 1),
     {"runtime/lab/replay/a.cpp": '#include "lab/trace/trace_event.hpp"\n'}),
    (includes.edges_are_allowed,  # Neighbours in one folder are not one folder.
     {"runtime/migrate/gates/a.cpp": '#include "migrate/moves/migrator.hpp"\n'},
     ("runtime/migrate/gates/a.cpp", 1),
     {"runtime/migrate/moves/a.cpp": '#include "migrate/migration/reach.hpp"\n'}),
    (includes.edges_are_allowed,
     {"runtime/base/a.cpp": '#include "clock.hpp"\n'}, ("runtime/base/a.cpp", 1),
     {"runtime/base/a.cpp": '#include "base/clock.hpp"\n'}),
    (includes.edges_are_allowed,
     {"runtime/misc/a.cpp": '#include "base/clock.hpp"\n'}, ("runtime/misc/a.cpp", 1), {}),
    (includes.edges_are_allowed,
     {"runtime/migrate/a.cpp": '#include "base/clock.hpp"\n'}, ("runtime/migrate/a.cpp", 1), {}),
    (includes.no_circles,
     {"runtime/a/a.hpp": "", "runtime/a/a.cpp": '#include "a/a.hpp"\n#include "a/b.hpp"\n',
      "runtime/a/b.hpp": '#include "a/c.hpp"\n', "runtime/a/c.hpp": '#include "a/a.hpp"\n'},
     ("runtime/a/a.cpp", 2),
     {"runtime/a/a.hpp": "", "runtime/a/a.cpp": '#include "a/a.hpp"\n#include "a/b.hpp"\n',
      "runtime/a/b.hpp": ""}),
    (includes.no_circles,
     {"runtime/a/a.hpp": '\n#include "b/b.hpp"\n', "runtime/b/b.hpp": '#include "c/d/c.hpp"\n',
      "runtime/c/d/c.hpp": '#include "a/other.hpp"\n', "runtime/e/e.hpp": '#include "a/a.hpp"\n'},
     ("runtime/a/a.hpp", 2),
     {"runtime/a/a.hpp": '#include "b/b.hpp"\n', "runtime/b/b.hpp": '#include "b/c.hpp"\n',
      "runtime/b/d/d.hpp": '#include "b/b.hpp"\n#include "a/a.hpp"\n'}),
    (includes.own_header_comes_first,
     {"runtime/base/a.hpp": "", "runtime/base/a.cpp": '#include <span>\n#include "base/a.hpp"\n'},
     ("runtime/base/a.cpp", 1),
     {"runtime/base/a.hpp": "", "runtime/base/a.cpp": '// A.\n#include "base/a.hpp"\n',
      "runtime/base/b.cpp": "#include <span>\n"}),
    (includes.placement_is_pure,
     {"runtime/placement/a.cpp": '#include "base/clock.hpp"\n'}, ("runtime/placement/a.cpp", 1),
     {"runtime/placement/a.cpp": '#include "base/check.hpp"\n#include "placement/b.hpp"\n'}),
    (includes.users_see_public_headers_only,
     {"examples/a.cpp": '#include "memory/chunk.hpp"\n'}, ("examples/a.cpp", 1),
     {"examples/a.cpp": '#include <vma/vma.hpp>\n', "tests/a.cpp": '#include "base/log.hpp"\n'}),
    (includes.public_headers_are_bare,
     {"include/vma/a.hpp": "#include <fmt/format.h>\n"}, ("include/vma/a.hpp", 1),
     {"include/vma/asio.hpp": "#include <boost/asio/post.hpp>\n#include <span>\n"}),
    (includes.public_headers_are_bare,
     {"include/vma/vmart.h": "#include <cuda.h>\n"}, ("include/vma/vmart.h", 1),
     {"include/vma/vmart.h": "#include <stddef.h>\n"}),
    (includes.public_headers_are_bare,
     {"include/vma/pool.hpp": "#include <cuda/stream_ref>\n"}, ("include/vma/pool.hpp", 1),
     {"include/vma/memory_resource.hpp": "#include <cuda/stream_ref>\n"}),
    (includes.one_door,
     {"runtime/sim/a.cpp": "#include <cuda/buffer>\n"}, ("runtime/sim/a.cpp", 1),
     {"tests/unit/memory_resource/a.cpp": "#include <thrust/sort.h>\n"}),
    (includes.one_door,
     {"runtime/sim/a.cpp": "// <cuda.h>\n# include <cuda.h>\n"}, ("runtime/sim/a.cpp", 2),
     {"runtime/driver/a.cpp": "#include <cuda.h>\n", "bench/rivals/a.cpp": "#include <cuda.h>\n"}),
    (includes.one_door,
     {"runtime/migrate/a.cpp": "#include <boost/asio.hpp>\n"}, ("runtime/migrate/a.cpp", 1),
     {"runtime/control/a.cpp": "#include <boost/asio.hpp>\n#include <boost/json.hpp>\n",
      "include/vma/asio.hpp": "#include <boost/asio/post.hpp>\n"}),
    (includes.c_linkage_only_in_abi,
     {"runtime/driver/a.cpp": 'extern "C" void f();\n'}, ("runtime/driver/a.cpp", 1),
     {"runtime/abi/a.cpp": 'extern "C" void f();\n', "runtime/sim/b.cpp": '// extern "C"\n',
      "include/vma/vmart.h": 'extern "C" {\n',
      "include/vma/policy.hpp": 'extern "C" {\n'}),
    (includes.c_linkage_only_in_abi,
     {"include/vma/a.h": '\nextern "C" {\n'}, ("include/vma/a.h", 2), {}),
    (includes.threads_only_in_base,
     {"runtime/sim/a.cpp": "\nstd::thread worker;\n"}, ("runtime/sim/a.cpp", 2),
     {"runtime/base/a.cpp": "std::thread worker;\n", "tests/a.cpp": "std::thread worker;\n",
      "runtime/sim/a.cpp": "// std::thread\nstd::thread::id id;\n"}),
    (includes.threads_only_in_base,
     {"runtime/sim/a.hpp": "std::condition_variable_any any;\n"}, ("runtime/sim/a.hpp", 1), {}),
    (includes.one_way_to_release_the_gil,
     {"runtime/python/core/a.cpp": "\nconst nb::gil_scoped_release release;\n"}, ("runtime/python/core/a.cpp", 2),
     {"runtime/python/core/interpreter.hpp": "PyEval_RestoreThread(state_);\n"}),
    (includes.tests_do_not_sleep,
     {"tests/unit/a_test.cpp": "std::this_thread::sleep_for(1s);\n"}, ("tests/unit/a_test.cpp", 1),
     {"tests/unit/a_test.cpp": 'std::puts("sleep_for");\n'}),
    (sizes.files_are_short,
     {"runtime/base/a.cpp": "\n" * 501}, ("runtime/base/a.cpp", 501),
     {"runtime/base/a.cpp": "\n" * 500, "docs/a.md": "\n" * 600}),
    (sizes.folders_are_small,
     {f"bench/live/{n}.txt": "" for n in range(41)}, ("bench/live", 1),
     {**{f"bench/live/{n}.txt": "" for n in range(40)}, "bench/live/b/a.py": "", "bench/live/README.md": "", "a.md": ""}),
    (sizes.functions_are_short,
     {"runtime/base/a.cpp": f"namespace a {{\nint f(int x)\n    noexcept {{\n{LONG_BODY}}}\n}}\n"},
     ("runtime/base/a.cpp", 2),
     {"runtime/base/a.cpp": f"namespace a {{\nclass M(\"x\") B {{\n{LONG_BODY}}};\n}}\n"
                            f"const int t[] = {{\n{LONG_BODY}}};\n"}),
    (sizes.functions_are_short,
     {"tests/a_test.cpp": f"TEST(A, B) {{\n{LONG_BODY}}}\n"}, ("tests/a_test.cpp", 1),
     {"tests/a_test.cpp": f"TEST(A, B) {{\n{LONG_BODY[:600]}}}\nTEST(A, C) {{\n}}\n"}),
    (sizes.functions_are_short,
     {"bench/a.py": "def f():\n" + "    pass\n" * 70}, ("bench/a.py", 1),
     {"bench/a.py": "def f():\n" + "    pass\n" * 69}),
    (sizes.functions_are_short,
     {"tests/a.sh": "f() {\n" + "  true\n" * 69 + "}\n"}, ("tests/a.sh", 1),
     {"tests/a.sh": "f() {\n" + "  true\n" * 68 + "}\n"}),
    (sizes.names_say_something,
     {"runtime/base/string_utils.hpp": ""}, ("runtime/base/string_utils.hpp", 1),
     {"runtime/base/units.hpp": ""}),
    (sizes.names_say_something,
     {"runtime/detail/a.hpp": ""}, ("runtime/detail/a.hpp", 1), {}),
    (documents.links_lead_somewhere,
     {"docs/a.md": "\n[it](../runtime/gone.hpp#top)\n"}, ("docs/a.md", 2),
     {"docs/a.md": "[it](b.md#x) [web](https://example.org) [here](#x)\n", "docs/b.md": ""}),
    (documents.anchors_exist,
     {"docs/a.md": "\n[it](b.md#gone)\n", "docs/b.md": "# Here\n```\n# gone\n```\n"}, ("docs/a.md", 2),
     {"docs/a.md": "# A `b`, c\n[it](b.md#twice-1) [here](#a-b-c) [code](x.hpp#y)\n",
      "docs/b.md": "## Twice\n## Twice\n"}),
    (documents.tables_are_whole,
     {"docs/a.md": "| a |\n|---|\n| b |\n\n| c |\n"}, ("docs/a.md", 4),
     {"docs/a.md": "| a |\n|---|\n| b |\n\n| c |\n|---|\n| d |\n"}),
    (documents.backticked_paths_exist,
     {"README.md": "see `migrate/gates/gate.hpp`\n", "runtime/migrate/gates/hold.hpp": ""}, ("README.md", 1),
     {"README.md": "`migrate/gates/hold.*`, `hold.hpp`, `./tests/run.sh --long`, `a/b`, `build/x`\n",
      "runtime/migrate/gates/hold.hpp": "", "tests/run.sh": ""}),
    (documents.backticked_paths_exist,
     {"runtime/migrate/README.md": "\n`gates/gone.hpp`\n", "runtime/migrate/gates/hold.hpp": ""},
     ("runtime/migrate/README.md", 2),
     {"runtime/migrate/README.md": "\n`gates/hold.hpp`\n", "runtime/migrate/gates/hold.hpp": ""}),
    (documents.backticked_paths_exist,
     {"docs/a.md": "`gone.cpp`\n"}, ("docs/a.md", 1), {"docs/a.md": "`docs/a.md` `vmart.h`\n"}),
    (documents.backticked_symbols_exist,
     {"README.md": "`vma::gone(p)`\n"}, ("README.md", 1),
     {"README.md": "`vma::alloc(n, vma::gpu(0))`\n", "include/vma/vma.hpp": "void* alloc();\n"}),
    (documents.answers_are_found,
     {QUESTIONS: QUESTION_ROW * 12 + "| What? | [a](../../a.cpp) | `close_gate` | [b](b.md) |\n",
      "a.cpp": "open_gate"},
     (QUESTIONS, 13),
     {QUESTIONS: QUESTION_ROW * 12, "a.cpp": "open_gate"}),
    (documents.answers_are_found,
     {QUESTIONS: QUESTION_ROW * 11, "a.cpp": "open_gate"}, (QUESTIONS, 1),
     {QUESTIONS: QUESTION_ROW * 12, "a.cpp": "open_gate"}),
    (documents.denials_name_what_was_not_measured,  # Of which there is a run.
     {"docs/a.md": "# A\n\nIt is fast.\nIt has not been run on a\nGPU yet; the program is `tests/gpu/b.py`.\n",
      "docs/results/c.md": "`tests/gpu/b.py` passes.\n"}, ("docs/a.md", 3),
     {"docs/a.md": "It has not been run on a GPU yet; the program is `tests/gpu/d.py`. `b.py` has.\n",
      "docs/results/c.md": "`tests/gpu/b.py` passes.\n"}),
    (documents.denials_name_what_was_not_measured,  # Which nobody can check.
     {"README.md": "| **Evidence** | Measured on H200: moves. The package is tested on simulated machines | x |\n"},
     ("README.md", 1),
     {"README.md": "| **Evidence** | The package is tested on H200, and in each test run on a simulated machine | x |\n"
                   "Run this page's programs with a GPU.\n"}),
    (documents.claims_are_measured,
     {"docs/a.md": "# A\n\nOn two H200, `b.py` passes.\n", "docs/results/c.md": "`d.py` passes.\n"}, ("docs/a.md", 3),
     {"docs/a.md": "On two H200, `d.py` passes in 1.5 s.\n", "docs/results/c.md": "`tests/d.py` passes in 1.5 s.\n"}),
    (documents.claims_are_measured,
     {"docs/a.md": "A stop on H200 takes 0.2 ms.\n", "docs/results/c.md": "It takes 0.25 ms, or 10.2.\n"},
     ("docs/a.md", 1),
     {"docs/a.md": "A stop on H200 takes 0.2 ms.\nA stop on a simulated machine takes 7 ms.\n",
      "docs/results/c.md": "It takes 0.2 ms.\n"}),
    (documents.sentences_are_short,
     {"docs/a.md": "# A\n\nShort.\n\n" + "So it goes " * 13 + ".\n"}, ("docs/a.md", 5),
     {"docs/a.md": "# A\n\n" + "So it goes. " * 13 + "[a](b.md#" + "c" * 200 + ") `" + "d " * 50 + "`.\n",
      "docs/reference/command_lines.md": "So it goes " * 13 + ".\n"}),
    (documents.layers_have_pages,
     {"runtime/memory/README.md": "", "runtime/pools/pool.hpp": "", "runtime/exports.list": ""},
     ("runtime/pools/README.md", 1),
     {"runtime/memory/README.md": "", "runtime/memory/parts/part.hpp": "", "runtime/exports.list": ""}),
    (documents.layers_have_pages,
     {"runtime/migrate/README.md": "\n" * 151}, ("runtime/migrate/README.md", 151),
     {"runtime/migrate/README.md": "\n" * 150, "bench/README.md": "\n" * 151}),
    (documents.layers_have_pages,
     {"runtime/migrate/README.md": "", "runtime/migrate/gates/README.md": "\n" * 151},
     ("runtime/migrate/gates/README.md", 151), {}),
    (documents.layers_have_pages,
     {ARCHITECTURE: THREE_DRAWINGS + "\n" * 189}, (ARCHITECTURE, 201), {ARCHITECTURE: THREE_DRAWINGS + "\n" * 188}),
    (documents.layers_have_pages,
     {ARCHITECTURE: THREE_DRAWINGS + "![a](b.svg)"}, (ARCHITECTURE, 1),
     {ARCHITECTURE: THREE_DRAWINGS.replace("```\n|\n```", "![a](b.svg)", 1)}),
    (documents.todo_has_an_issue,
     {"runtime/base/a.cpp": "\n// TODO: later\n"}, ("runtime/base/a.cpp", 2),
     {"runtime/base/a.cpp": "// TODO(#12): later\n"}),
    (documents.nothing_about_our_workplace,
     {"docs/a.md": "in /root/x\n"}, ("docs/a.md", 1), {"docs/a.md": "in /usr/local and ./home/x\n"}),
    (documents.nothing_about_our_workplace,
     {"README.md": "\nlast session\n"}, ("README.md", 2), {"runtime/base/a.cpp": "// session\n"}),
    (building.every_source_is_listed,
     {"tests/unit/a_test.cpp": "", "tests/CMakeLists.txt": "# unit/a_test.cpp\nba_test.cpp\n"},
     ("tests/unit/a_test.cpp", 1),
     {"tests/unit/a_test.cpp": "", "tests/CMakeLists.txt": "x(unit/a_test.cpp)\n",
      "examples/b.cpp": "", "examples/CMakeLists.txt": "vmart_example(b)\n"}),
    (building.every_source_is_listed,
     {"runtime/sim/a.cpp": "", "runtime/sim/CMakeLists.txt": "SOURCES b.cpp"},
     ("runtime/sim/a.cpp", 1),
     {"runtime/sim/a.cpp": "", "runtime/sim/CMakeLists.txt": "SOURCES a.cpp"}),
    (building.a_type_has_one_definition,
     {"runtime/pools/a.hpp": "struct Part {\n", "runtime/sim/b.hpp": "\nclass Part final : Whole {\n"},
     ("runtime/sim/b.hpp", 2),
     {"runtime/pools/a.hpp": "struct Part {\n};\nclass Own;\n", "runtime/sim/b.hpp": "class Own;\n",
      "runtime/sim/b.cpp": "namespace {\nstruct Part {\n};\n}  // namespace\n"}),
    (building.tests_are_named_as_tests,
     {"tests/a.cpp": "\nTEST_F(A, B) {\n"}, ("tests/a.cpp", 2), {"tests/a_test.cpp": "TEST(A, B)"}),
    (ratchets.numbers_only_shrink,  # A smaller number is written down.
     {ratchets.THIS: '    "comments that begin with \'Of\'": 2,\n', "runtime/a/a.hpp": "int a;  // Of b.\n"},
     (ratchets.THIS, 1),
     {ratchets.THIS: '    "comments that begin with \'Of\'": 1,\n', "runtime/a/a.hpp": "int a;  // Of b.\n"}),
    (ratchets.numbers_only_shrink,
     {ratchets.THIS: '    "classes with more than 12 fields of state and no line why": 0,\n',
      "runtime/a/a.hpp": "class A {\n" + "".join(f"  int a{i}_;\n" for i in range(13)) + "};\n"},
     (ratchets.THIS, 1),
     {ratchets.THIS: '    "classes with more than 12 fields of state and no line why": 0,\n',
      "runtime/a/a.hpp": "class A {\n" + "".join(f"  int a{i}_;\n" for i in range(12)) + "};\n",
      "runtime/a/b.hpp": "/// A.\n/// One owner: b.\nclass B final : A {\n"
                         + "".join(f"  int a{i}_;\n" for i in range(13)) + "};\n"}),
    (ratchets.numbers_only_shrink,  # The line is directly above the class.
     {ratchets.THIS: '    "classes with more than 12 fields of state and no line why": 0,\n',
      "runtime/a/a.hpp": "/// One owner: b.\n\n/// A.\nclass A {\n"
                         + "".join(f"  int a{i}_;\n" for i in range(13)) + "};\n"},
     (ratchets.THIS, 1),
     {ratchets.THIS: '    "classes with more than 12 fields of state and no line why": 0,\n',
      "runtime/a/a.hpp": "/// One owner: b.\nclass A {\n"
                         + "".join(f"  int a{i}_;\n" for i in range(13)) + "};\n"}),
    (ratchets.numbers_only_shrink,
     {ratchets.THIS: '    "units of less than 60 lines a file with one includer": 0,\n',
      "runtime/a/a.hpp": "", "runtime/b/b.cpp": '#include "a/a.hpp"\n'},
     (ratchets.THIS, 1),
     {ratchets.THIS: '    "units of less than 60 lines a file with one includer": 0,\n',
      "runtime/a/a.hpp": "", "runtime/b/b.cpp": '#include "a/a.hpp"\n', "runtime/b/c.cpp": '#include "a/a.hpp"\n'}),
]


class Offences(unittest.TestCase):
    def test_each_planted_offence_is_caught_once_and_its_clean_neighbour_is_not(self):
        for check, bad, where, good in CASES:
            with self.subTest(check=check.__name__, where=where):
                self.assertEqual(planted(check, bad), [where])
                self.assertEqual(planted(check, good), [])

    def test_no_rule_goes_untested(self):
        self.assertEqual({check for check, *_ in CASES}, set(CHECKS))

    def test_a_folder_sees_only_folders_above_it_in_the_table(self):
        rows = list(includes.SEES)
        for folder, sees in includes.SEES.items():
            for other in sees.split():
                self.assertLess(rows.index(other), rows.index(folder), f"{folder} sees {other}")

    def test_stripping_keeps_lines_and_code(self):
        text = 'a(1\'000); // b\nR"(x\n"y)" + "//z"; /* c\n d */ e(\'"\');\n'
        self.assertEqual(strip_cpp(text), 'a(1\'000); \n\n"" + ""; \n e();\n')

    def test_branches_of_a_conditional_do_not_unbalance_the_braces(self):
        text = "#if A\nvoid f() {\n#else\nvoid g() {\n#endif\n}\n#define B {\\\n {\nvoid h() {}\n"
        self.assertEqual([name for name, *_ in sizes.cpp_functions(text)], ["f", "h"])

    def test_a_lambda_counts_with_its_function(self):
        text = "void f() {\n  auto g = [](int x) {\n  };\n}\n"
        self.assertEqual(sizes.cpp_functions(text), [("f", 1, 4)])


if __name__ == "__main__":
    unittest.main()
