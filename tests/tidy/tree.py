"""What the checks look at: the files of the repository, or of a test's made-up one."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

CPP = (".cpp", ".hpp", ".c", ".h")
CODE = CPP + (".py", ".sh", ".cu")
TEXT = CODE + (".md", ".txt", ".cmake", ".in", ".json", ".map")


@dataclass(frozen=True)
class Offence:
    path: str
    line: int
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}"


class Tree:
    """Paths, relative and with slashes, and their text. A value: nothing reads the disk later."""

    def __init__(self, files):
        self.files = files

    @staticmethod
    def of_directory(root):
        files = {}
        for path in _paths(root):
            full = Path(root, path)
            if full.is_file() and (path.endswith(TEXT) or path.startswith(".ci/")):
                files[path] = full.read_text(encoding="utf-8")
            elif full.is_file():
                files[path] = ""
        return Tree(files)

    def paths(self, *folders, endings=CODE):
        """Of the files in these folders (all, if none is named) with such an ending."""
        return sorted(
            path
            for path in self.files
            if path.endswith(endings) and (not folders or path.startswith(folders))
        )

    def lines(self, path):
        return enumerate(self.files[path].split("\n"), 1)

    def code_lines(self, path):
        """The same without comments and the insides of string literals."""
        return enumerate(strip_cpp(self.files[path]).split("\n"), 1)

    def exists(self, path):
        path = path.rstrip("/")
        return path in self.files or any(file.startswith(path + "/") for file in self.files)


def _paths(root):
    listing = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        return sorted(set(listing.stdout.split("\n")) - {""})
    found = []  # An unpacked archive has no git.
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", ".git", ".cache", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


_CPP_TOKEN = re.compile(
    r'(?P<include>^[ \t]*\#[ \t]*include[^\n]*)'
    r'|(?P<raw>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<block>/\*.*?\*/)'
    r'|(?P<line>//[^\n]*)'
    r"|(?P<number>\b\d[\w.]*(?:'[\w.]+)+)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>'(?:\\.|[^'\\\n])+')",
    re.DOTALL | re.MULTILINE)


def strip_cpp(text):
    """C++ without comments and literals' insides; every line stays on its line."""

    def blank(match):
        whole = match.group(0)
        if match.lastgroup in ("include", "number"):
            return whole
        if match.group("string") and whole == '"C"':
            return whole
        newlines = "\n" * whole.count("\n")
        return newlines + '""' if match.group("string") or match.group("raw") else newlines

    return _CPP_TOKEN.sub(blank, text)
