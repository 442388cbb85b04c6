"""Sizes of files, folders and functions, names of files."""

import ast
import re
from collections import Counter

from tree import CPP, Offence, strip_cpp

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FOLDER_FILES_MAX = 40
BANNED = {"utils", "util", "common", "helper", "helpers", "manager", "impl", "detail"}

CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b")
TYPE_OR_NAMESPACE = re.compile(
    r"(?:(?:public|private|protected)\s*:\s*|template\s*<[^{}]*>\s*)*"
    r"(?:inline\s+|typedef\s+)?(?:namespace|class|struct|union|enum|extern\s*\"C\")(?:\s|$)")


def files_are_short(tree):
    for path in tree.paths():
        lines = tree.files[path].count("\n")
        if lines > FILE_LINES_MAX:
            yield Offence(path, lines, f"{lines} lines, at most {FILE_LINES_MAX}")


def folders_are_small(tree):
    """Files that lie in a folder itself, CMakeLists.txt among them, but not the page about it."""
    files = Counter(path.rpartition("/")[0] for path in tree.files if not path.endswith("/README.md"))
    for folder, count in files.items():
        if count > FOLDER_FILES_MAX:
            yield Offence(folder, 1, f"{count} files in a folder, at most {FOLDER_FILES_MAX}")


def functions_are_short(tree):
    scanners = {**dict.fromkeys(CPP, cpp_functions), ".py": python_functions,
                ".sh": shell_functions}
    for path in tree.paths(endings=tuple(scanners)):
        for name, first, last in scanners["." + path.rsplit(".", 1)[1]](tree.files[path]):
            length = last - first + 1
            if length > FUNCTION_LINES_MAX:
                yield Offence(path, first, f"{name}: {length} lines, at most {FUNCTION_LINES_MAX}")


def names_say_something(tree):
    for path in tree.files:
        parts = re.split(r"[/_.-]", path)
        if banned := BANNED.intersection(parts):
            yield Offence(path, 1, f"a file name with '{min(banned)}' says nothing")


def _without_preprocessor(text):
    """Blanks directives and all branches of a conditional but the first: braces balance then."""
    kept, branches, goes_on = [], [], False
    for line in text.split("\n"):
        directive = CONDITIONAL.match(line) if not goes_on else None
        word = directive.group(1) if directive else ""
        if word in ("if", "ifdef", "ifndef"):
            branches.append(True)
        elif word in ("elif", "else") and branches:
            branches[-1] = False
        elif word == "endif" and branches:
            branches.pop()
        is_directive = goes_on or line.lstrip().startswith("#")
        goes_on = is_directive and line.endswith("\\")
        kept.append(line if all(branches) and not is_directive else "")
    return "\n".join(kept)


def cpp_functions(text):
    """Every outermost brace block that is no type, namespace or initialiser: (name, first, last)."""
    text = _without_preprocessor(strip_cpp(text))
    stack, found, head_start, line, parentheses = [], [], 0, 1, 0
    for position, character in enumerate(text):
        if character == "\n":
            line += 1
        elif character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == "{":
            head = text[head_start:position].strip()
            inside = any(kind == "function" for kind, *_ in stack)
            body = "(" in head and not head.endswith("=") and not TYPE_OR_NAMESPACE.match(head)
            kind = "function" if body and not inside else "other"
            stack.append((kind, _name(head), line - head.count("\n")))
            head_start = position + 1
        elif character == "}" and stack:
            kind, name, first = stack.pop()
            if kind == "function":
                found.append((name, first, line))
            head_start = position + 1
        elif character == ";" and parentheses == 0:
            head_start = position + 1
    return found


def _name(head):
    match = re.search(r"([\w:~]+)\s*\(([^()]*)", head)
    if match is None:
        return "block"
    test = re.match(r"(TYPED_)?TEST(_F|_P)?$", match.group(1))
    return f"{match.group(1)}({match.group(2)})" if test else match.group(1)


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


def shell_functions(text):
    name, first = None, 0
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.match(r"(\w+)\(\) [{(]$", line):
            name, first = match.group(1), number
        elif name and re.match(r"[})]", line):
            yield name, first, number
            name = None


CHECKS = [files_are_short, folders_are_small, functions_are_short, names_say_something]
