"""What prose and comments promise: paths and symbols that exist, no words about where we work."""

import fnmatch
import posixpath
import re

from tree import Offence

LINK = re.compile(r"\]\(([^)\s]+)\)")
LINK_TEXT = re.compile(r"\[([^]]*)\]\([^)]*\)")
BACKTICKED = re.compile(r"`([^`\n]+)`")
TOP = ("runtime/", "include/", "examples/", "tests/", "bench/", "docs/", ".ci/")
FILE_ENDINGS = (".cpp", ".hpp", ".py", ".sh", ".md", ".cu")
SYMBOL = re.compile(r"^(vma(?:::\w+)+)(?:\([^`]*\))?$")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\)|\(issue \d+\))")
PROGRAM = re.compile(r"([\w/.-]+\.(?:py|cpp|cu|sh))\b")
GPU = r"(?:GPUs?|H[12]00s?|real (?:ones|machines))"
SIMULATED = r"simulat(?:or|ed (?:machines?|GPUs?|ones))"
# What a page says that denies a run on a GPU. Each part stays within a sentence.
DENIALS = (
    re.compile(rf"\b(?:not|never|nor|no)\b[^.]*\b(?:run|ran|tried|tested)\b[^.]*\b{GPU}\b"),
    re.compile(rf"\bnot\b[^.]*\bon (?:a |any |real )?{GPU}(?: yet)?\b"),
    re.compile(rf"\b(?:tested|run|ran|tried)\b[^.]*\b(?:on|with) (?:the )?{SIMULATED}(?: only)?\W*(?:[.,;]|$)"),
)
RESULTS = "docs/results/"
INTERNALS = ("docs/internals/", "runtime/", "tests/")
# A sentence about these says what was measured.
MEASURED_GPU = re.compile(r"\bH[12]00s?\b")
FIGURE = re.compile(r"(?<![\w.,])(\d[\d ]*(?:\.\d+)?) (?:ns|us|ms|s|GB/s|%|tokens/s)(?!\w)")
SENTENCE_WORDS_MAX = 38
LAYER_PAGE_LINES_MAX = 150
ARCHITECTURE, ARCHITECTURE_LINES_MAX, ARCHITECTURE_DRAWINGS = "docs/internals/architecture.md", 200, 3
MADE = "docs/reference/command_lines.md"  # By a program.
MACHINE_PATH = re.compile(r"(?<![\w.])/(root|home|work)/")


def _documents(tree):
    return tree.paths(endings=(".md",))


def links_lead_somewhere(tree):
    """Relative links, from the folder of the document."""
    for path in _documents(tree):
        for number, line in tree.lines(path):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                full = posixpath.normpath(
                    posixpath.join(posixpath.dirname(path), target.split("#")[0]))
                if not tree.exists(full):
                    yield Offence(path, number, f"dead link: {target}")


def anchors_exist(tree):
    """`page.md#heading` and `#heading`: a heading of the page has that name, as GitHub makes it."""
    anchors = {path: _anchors(tree, path) for path in _documents(tree)}
    for path in anchors:
        for number, line in tree.lines(path):
            for target in LINK.findall(line):
                page, _, anchor = target.partition("#")
                if not anchor or re.match(r"[a-z]+:", target):
                    continue
                full = path
                if page:
                    full = posixpath.normpath(posixpath.join(posixpath.dirname(path), page))
                if full in anchors and anchor not in anchors[full]:
                    yield Offence(path, number, f"no such heading: {target}")


def _anchors(tree, path):
    found, fenced = set(), False
    for _, line in tree.lines(path):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        heading = re.match(r"#+ +(.*?)[# ]*$", line)
        if fenced or not heading:
            continue
        text = LINK_TEXT.sub(r"\1", heading[1]).lower()
        name = base = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = 0
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found.add(name)
    return found


def tables_are_whole(tree):
    """A blank line between two rows ends a table: what follows is shown as text."""
    for path in _documents(tree):
        lines, fenced = [line for _, line in tree.lines(path)], False
        for index, line in enumerate(lines):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            begins = index + 2 < len(lines) and re.match(r"\|[-:| ]+\|$", lines[index + 2])
            if (not fenced and not line.strip() and 0 < index < len(lines) - 1
                    and lines[index - 1].startswith("|") and lines[index + 1].startswith("|")
                    and not begins):
                yield Offence(path, index + 1, "a blank line within a table")


def backticked_paths_exist(tree):
    """A path may begin at the root, in runtime/, in include/ or beside the page; a bare file name may lie anywhere."""
    starts = (*TOP, *{path.split("/")[1] + "/" for path in tree.files if path.count("/") > 1 and path.startswith("runtime/")})
    for path in _documents(tree):
        for number, line in tree.lines(path):
            for quoted in BACKTICKED.findall(line):
                for word in quoted.split():
                    word = word.removeprefix("./").rstrip(",;:")
                    if _looks_like_a_path(word, starts) and not _found(tree, word, posixpath.dirname(path)):
                        yield Offence(path, number, f"no such path: {word}")


def _looks_like_a_path(word, starts):
    if not re.fullmatch(r"[\w.*/{},-]+", word) or "," in word or word.startswith(("/", "-")):
        return False
    return word.startswith(starts) or word.endswith(FILE_ENDINGS)


def _found(tree, word, beside):
    if "/" not in word:
        return any(fnmatch.fnmatch(posixpath.basename(file), word) for file in tree.files)
    starts = ("", "runtime/", "include/", "include/vma/", beside + "/")
    if "*" in word:
        return any(fnmatch.fnmatch(file, start + word) for file in tree.files for start in starts)
    return any(tree.exists(start + word) for start in starts)


def backticked_symbols_exist(tree):
    """`vma::alloc` and the like: the last name is a word of the code."""
    words = set()
    for path in tree.paths("runtime/", "include/", endings=(".hpp", ".cpp")):
        words.update(re.findall(r"\w+", tree.files[path]))
    for path in _documents(tree):
        for number, line in tree.lines(path):
            for quoted in BACKTICKED.findall(line):
                match = SYMBOL.match(quoted)
                if match and match.group(1).rsplit("::", 1)[1] not in words:
                    yield Offence(path, number, f"no such symbol: {quoted}")


def answers_are_found(tree):
    """A row of the questions: question, files, words to search for in them, pages."""
    path = "docs/internals/where_is_what.md"
    rows = 0
    for number, line in tree.lines(path) if path in tree.files else ():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| ") or cells[0] == "question":
            continue
        rows += 1
        if len(cells) != 4 or not BACKTICKED.search(cells[2]) or not LINK.search(cells[3]):
            yield Offence(path, number, "a row is: question, files, words to search for, pages")
            continue
        files = [posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                 for target in LINK.findall(cells[1])]
        text = "\n".join(tree.files.get(file, "") for file in files)
        for words in BACKTICKED.findall(cells[2]):
            if words not in text:
                yield Offence(path, number, f"not in {', '.join(files)}: {words}")
    if path in tree.files and rows < 12:
        yield Offence(path, 1, f"{rows} questions, at least 12 are expected")


def denials_name_what_was_not_measured(tree):
    """A page that says that something has not run on a GPU, or on simulated ones only, names the program that
    would show it, and the results have no run of that program."""
    measured = _results(tree)
    for path, number, sentence in _claims(tree):
        if not _denies(sentence):
            continue
        programs = _programs(sentence)
        if not programs:
            yield Offence(path, number, f"names no program that would show it: {sentence[:100]}")
        for name in programs:
            if _has(measured, name):
                yield Offence(path, number, f"the results have a run of {name}: {sentence[:100]}")


def claims_are_measured(tree):
    """Of a sentence about an H100 or H200, each program and each figure stands in the results. A weak check: it does
    not know which figure of the results is meant."""
    measured = _results(tree)
    for path, number, sentence in _claims(tree):
        if not MEASURED_GPU.search(sentence) or _denies(sentence) or path.startswith(INTERNALS):
            continue
        for what in _programs(sentence) + sorted(set(FIGURE.findall(sentence))):
            if not _has(measured, what):
                yield Offence(path, number, f"the results do not have {what}: {sentence[:100]}")


def _results(tree):
    return "\n".join(tree.files[path] for path in tree.files if path.startswith((RESULTS, "docs/measurements/")))


def _has(measured, word):
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\d)", measured) is not None


def _denies(sentence):
    return any(denial.search(sentence) for denial in DENIALS)


def _programs(sentence):
    return sorted({posixpath.basename(name) for name in PROGRAM.findall(sentence)})


def _claims(tree):
    """The sentences of all pages but those that are results, and the changelog, which speaks of the past."""
    for path in _documents(tree):
        if not path.startswith(RESULTS) and path != "docs/CHANGELOG.md":
            yield from ((path, number, sentence) for number, sentence in _sentences(tree, path))


def _sentences(tree, path):
    """Each sentence of the prose and of the cells of tables, on one line, and the number of the line where its
    paragraph begins."""
    fenced, begin, words = False, 1, []

    def ended():
        text = re.sub(r"[*_]{2}", "", " ".join(words))
        words.clear()
        for cell in text.split(" | "):
            yield from ((begin, sentence) for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`[(])", cell) if sentence)

    for number, line in tree.lines(path):
        line = line.strip()
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line or line.startswith(("|", "- ", "#", "```", "<!--")):
            yield from ended()
        if fenced or not line or line.startswith(("```", "<!--")):
            continue
        if not words:
            begin = number
        words.append(line)
    yield from ended()


def sentences_are_short(tree):
    """A span of code is one word, and where a link leads is none."""
    for path in _documents(tree):
        if path == MADE:
            continue
        for number, sentence in _sentences(tree, path):
            words = len(BACKTICKED.sub("code", LINK_TEXT.sub(r"\1", sentence)).split())
            if words > SENTENCE_WORDS_MAX:
                yield Offence(path, number, f"a sentence of {words} words, at most {SENTENCE_WORDS_MAX}: {sentence[:60]}")


def layers_have_pages(tree):
    """Each folder directly in runtime/ has a README.md. Such pages, those of parts of a layer and those of tests are short,
    and architecture.md is one page with three drawings."""
    for layer in sorted({path.split("/")[1] for path in tree.files if re.match(r"runtime/[^/]+/", path)}):
        if f"runtime/{layer}/README.md" not in tree.files:
            yield Offence(f"runtime/{layer}/README.md", 1, "a folder directly in runtime/ has a README.md")
    pages = {path: LAYER_PAGE_LINES_MAX for path in _documents(tree)
             if path.startswith(("runtime/", "tests/")) and path.endswith("/README.md")}
    for path, lines_max in {**pages, ARCHITECTURE: ARCHITECTURE_LINES_MAX}.items():
        lines = tree.files.get(path, "").count("\n")
        if lines > lines_max:
            yield Offence(path, lines, f"{lines} lines, at most {lines_max}")
    text = tree.files.get(ARCHITECTURE, "")
    drawings = len(re.findall("^```", text, re.MULTILINE)) // 2 + len(re.findall(r"^!\[", text, re.MULTILINE))
    if ARCHITECTURE in tree.files and drawings != ARCHITECTURE_DRAWINGS:
        yield Offence(ARCHITECTURE, 1, f"{drawings} drawings, {ARCHITECTURE_DRAWINGS} are expected")


def todo_has_an_issue(tree):
    for path in tree.files:
        if path.startswith("tests/tidy/"):
            continue
        for number, line in tree.lines(path):
            if match := TODO.search(line):
                yield Offence(path, number, f"{match.group(1)} without (#issue)")


def nothing_about_our_workplace(tree):
    """A stranger's clone has other paths, and knows nothing of how the code was written."""
    for path in tree.files:
        if path.startswith("tests/tidy/"):
            continue
        for number, line in tree.lines(path):
            if match := MACHINE_PATH.search(line):
                yield Offence(path, number, f"a path of one machine: {match.group(0)}")
            if path.endswith(".md") and re.search(r"\bsessions?\b", line, re.IGNORECASE):
                yield Offence(path, number, "docs do not speak of a session")


CHECKS = [links_lead_somewhere, anchors_exist, tables_are_whole, backticked_paths_exist, backticked_symbols_exist,
          answers_are_found, denials_name_what_was_not_measured, claims_are_measured, sentences_are_short,
          layers_have_pages, todo_has_an_issue, nothing_about_our_workplace]
