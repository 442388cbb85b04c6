#!/usr/bin/env python3
"""Goal: a reader who is new finds the answer to each of these questions from the page where he begins, over at most two
links. Method: the links are followed, as they stand in the pages; the page or section at their end has the words of the
answer, and the source has those that make it true. Where to look (docs/internals/where_is_what.md) has more questions.
"""

import pathlib
import posixpath
import re
import sys
import unittest
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import documents  # noqa: E402
from tree import Tree  # noqa: E402

STARTS = ("README.md", "docs/index.md", "docs/internals/architecture.md", "docs/internals/where_is_what.md")
HOPS_MAX = 2


@dataclass(frozen=True)
class Question:
    text: str
    start: str
    links: list  # From page to page, as paths of the repository; the last one may name a heading.
    answer: list  # Words of the page at the end.
    true_by: dict = field(default_factory=dict)  # Sources, and words that they have while the answer is true.


QUESTIONS = [
    Question("Which classes make up one stop, and how do Stops, Gate, Hold, BatchStop and EnqueuedStops differ?",
             "docs/internals/architecture.md", ["runtime/migrate/README.md#the-stop"],
             ["| `Stops` | the turn", "| `BatchStop` |", "| `ProgramStop` |", "| `Suspension`, `Gate`, `Hold` |", "| `EnqueuedStops` |",
              "| `StopWord`, `Watchdog` |"],
             {"runtime/migrate/migration/stops.hpp": ["class Stops {", "class Turn"],
              "runtime/migrate/live/batch_stop.hpp": ["class BatchStop {", "ProgramStop program_"],
              "runtime/migrate/gates/gate.hpp": ["class Gate final : public StoppedWork"],
              "runtime/migrate/gates/hold.hpp": ["class Hold final : public StoppedWork"],
              "runtime/migrate/stops/suspension.hpp": ["class Suspension final : public StoppedWork"],
              "runtime/migrate/gates/enqueued_stops.hpp": ["class EnqueuedStops {"]}),
    Question("Which class is a migration?",
             "docs/internals/architecture.md", ["runtime/migrate/README.md"],
             ["A `MigrationTask` (`migration_task.hpp`) is one migration"],
             {"runtime/migrate/migration/migration_task.hpp": ["class MigrationTask {"],
              "include/vma/migration.hpp": ["Migration {"]}),
    Question("Where does cudaFree of an unmodified program go?",
             "docs/index.md", ["docs/internals/where_is_what.md"],
             ["`cudaFree`", "`hook_cuMemFree_v2`", "`ProgramMemory::free`", "`vmart_torch_free`"],
             {"runtime/interpose/hooks/memory_hooks.cpp": ["hook_cuMemFree_v2"],
              "runtime/interpose/program_memory.cpp": ["vmart_torch_free("],
              "runtime/abi/torch_pool.cpp": ["vmart_torch_free("]}),
    Question("How do I add a hooked driver call?",
             "README.md", ["docs/CONTRIBUTING.md#add-a-call-that-vmart-run-sees"],
             ["runtime/entry_points/entry_points.hpp", "tests/run/driver_calls.txt"],
             {"runtime/entry_points/known_calls.cpp": ["static_assert"]}),
    Question("How do I exclude a library from `vmart run`?",
             "docs/index.md", ["docs/guide/run.md"],
             ["`--exclude NAMES`", "parts of the names of libraries"],
             {"runtime/tools/vmart/vmart.cpp": ['{"--exclude", "NAME,..."}']}),
    Question("Can two processes share memory that moves?",
             "docs/index.md", ["docs/guide/sharing.md#moves"],
             ["its importers follow", "A move is all or nothing"],
             {"runtime/sharing/shared_decision.hpp": ["class SharedDecision"]}),
    Question("Does the Python package work on a GPU?",
             "README.md", ["docs/results/python.md#on-two-h200"],
             ["130 losses equal to the last bit", "2 849 of 2 849"],
             {"tests/gpu/torch_package.py": [], "tests/gpu/cupy_package.py": []}),
    Question("What does scheduler_moves_wanted_total count?",  # Which was scheduler_moves_planned_total.
             "docs/index.md", ["docs/guide/control.md#counters"],
             ["`vmart_scheduler_moves_wanted_total` | Moves that policies proposed."],
             {"include/vma/counters.hpp": ['"moves_wanted", &Stats::moves_wanted, "Moves that policies proposed."'],
              "runtime/control/prometheus.cpp": ['"scheduler_"', '"_total"']}),
    Question("Who chooses the size of a chunk?",
             "docs/internals/architecture.md", [],
             ["`plan_geometry` divides the size into slots", "64 to 256 MiB"],
             {"runtime/memory/geometry.hpp": ["plan_geometry("]}),
    Question("How often is a policy asked, and where?",
             "docs/internals/architecture.md", ["runtime/scheduling/README.md"],
             ["`SchedulerLoop`", "ticks every ten", "an allocation without a place", "no room"],
             {"runtime/scheduling/scheduler_loop.hpp": ["class SchedulerLoop"],
              "runtime/runtime/settings.cpp": ['"VMART_TICK_US", "tick", 10\'000']}),
    Question("On which thread does my hook run?",
             "docs/index.md", ["docs/guide/integrations.md#registrations-that-follow"],
             ["Hooks are called on the thread that moves"],
             {"include/vma/migration.hpp": ["moving thread, with nothing stopped"]}),
    Question("How does NCCL's registration survive a move?",
             "README.md", ["docs/guide/integrations.md#registrations-that-follow"],
             ["the hook calls `ncclCommDeregister`", "`ncclCommRegister` when none is moving any more"],
             {"tests/gpu/nccl_registered.py": ["ncclCommDeregister"]}),
]


class Pages:
    def __init__(self, tree):
        self.tree = tree

    def links(self, page):
        """Where the links of a page lead, without headings."""
        for target in documents.LINK.findall(self.tree.files[page]):
            if not re.match(r"[a-z]+:|#", target):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target.split("#")[0]))

    def section(self, page, heading):
        """The text below a heading, as GitHub names it, up to the next one of its level."""
        lines, found = self.tree.files[page].split("\n"), None
        for number, line in enumerate(lines):
            match = re.match(r"(#+) +(.*)", line)
            if found is not None and match and len(match[1]) <= found[1]:
                return "\n".join(lines[found[0]:number])
            if match and re.sub(r"[^\w\- ]", "", match[2].lower()).replace(" ", "-") == heading:
                found = number, len(match[1])
        return "" if found is None else "\n".join(lines[found[0]:])

    def wrong(self, question):
        """What keeps the reader from the answer."""
        if question.start not in STARTS:
            yield f"{question.start} is no page to begin with"
        if len(question.links) > HOPS_MAX:
            yield f"{len(question.links)} hops"
        page, heading = question.start, ""
        for target in question.links:
            there, _, heading = target.partition("#")
            if there not in self.links(page):
                yield f"{page} has no link to {there}"
            if there not in self.tree.files:
                yield f"no such page: {there}"
                return
            page = there
        text = " ".join((self.section(page, heading) if heading else self.tree.files[page]).split())
        yield from (f"{page} does not say: {words}" for words in question.answer if words not in text)
        for source, all_words in question.true_by.items():
            code = " ".join(self.tree.files.get(source, "").replace("///", "").split())
            if not code:
                yield f"no such source: {source}"
            yield from (f"{source} has no {words}" for words in all_words if words not in code)


class Questions(unittest.TestCase):
    def test_each_is_answered_within_two_hops(self):
        pages = Pages(Tree.of_directory(str(ROOT)))
        self.assertEqual(len(QUESTIONS), 12)
        for question in QUESTIONS:
            with self.subTest(question.text):
                self.assertEqual(list(pages.wrong(question)), [])


class Following(unittest.TestCase):
    PAGES = {"docs/index.md": "[b](guide/b.md#how)\n", "docs/guide/b.md": "# How\n\nIt moves\nat once.\n# Else\nNo.\n",
             "runtime/a.hpp": "class A {\n"}
    QUESTION = Question("How?", "docs/index.md", ["docs/guide/b.md#how"], ["It moves at once"], {"runtime/a.hpp": ["class A"]})

    def wrong(self, pages, **changed):
        return list(Pages(Tree(pages)).wrong(Question(**{**self.QUESTION.__dict__, **changed})))

    def test_what_is_answered_passes(self):
        self.assertEqual(self.wrong(self.PAGES), [])

    def test_a_link_that_is_gone_is_noticed(self):
        self.assertEqual(self.wrong({**self.PAGES, "docs/index.md": "guide/b.md\n"}),
                         ["docs/index.md has no link to docs/guide/b.md"])

    def test_an_answer_elsewhere_on_the_page_does_not_count(self):
        self.assertEqual(self.wrong(self.PAGES, answer=["No."]), ["docs/guide/b.md does not say: No."])

    def test_an_answer_that_the_source_denies_does_not_count(self):
        self.assertEqual(self.wrong({**self.PAGES, "runtime/a.hpp": "class B {\n"}), ["runtime/a.hpp has no class A"])

    def test_three_hops_are_too_many(self):
        self.assertIn("3 hops", self.wrong(self.PAGES, links=["docs/guide/b.md"] * 3))


if __name__ == "__main__":
    unittest.main()
