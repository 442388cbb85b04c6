#!/usr/bin/env python3
"""wheel_check.py WHEEL... --source DIR [--forbid TEXT]: whether wheels are as their names promise, with the sources
in DIR.

The tag manylinux_2_N promises that a system with glibc 2.N and the C++ library of its time is enough. The files are
those of the package and no others, objects are stripped, search nothing outside, and name no TEXT, such as a folder
of the build. Prints what is wrong, and exits with 1.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from search_paths import is_object, wrong_entries

SIZE_MAX = 12_000_000
# The newest versions of symbols that a system has, by its glibc: those of auditwheel's policies.
NEWEST = {28: {"GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"},
          31: {"GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "7.0.0"},
          34: {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"}}
# What every such system has: the C library in its parts, and the C++ library.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
BUILT = {"vmart/_core.pyi", "vmart/_lab.pyi", "vmart/bin/vmart", "vmart/bin/vmart-lab", "vmart/lib/libvmart.so",
         "vmart/lib/libvmart-run.so", "vmart/lib/libvmart-shim.so", "vmart/lib/libvmart-driver.so"}
EXTENSIONS = ("_core", "_lab")
LAID = {"runtime/python/vmart": "vmart", "include/vma": "vmart/include/vma",
        "runtime/machine/machines": "vmart/share/vmart/machines"}
METADATA = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
LICENCES = "runtime/packages/licences"  # Of what is compiled in.
NAME = re.compile(r"vmart-(?P<version>[\d.]+)-(?P<python>cp3\d+)-(?P<abi>abi3|cp3\d+)-"
                  r"manylinux_2_(?P<glibc>\d+)_(?P<machine>x86_64|aarch64)\.whl")


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def expected(source, name):
    """The files of a wheel of that name."""
    files = {f"{target}/{path.relative_to(source / folder)}" for folder, target in LAID.items()
             for path in (source / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    abi = "abi3" if name["abi"] == "abi3" else f"cpython-{name['python'][2:]}-{name['machine']}-linux-gnu"
    soversion = ".".join(name["version"].split(".")[:2])
    return (files | BUILT | {f"vmart/{extension}.{abi}.so" for extension in EXTENSIONS} |
            {f"vmart/lib/libvmart.so.{soversion}"} |
            {f"vmart-{name['version']}.dist-info/{file}" for file in METADATA} |
            {f"vmart-{name['version']}.dist-info/licenses/{LICENCES}/{path.name}" for path in (source / LICENCES).glob("*")})


def wrong_versions(printed, glibc):
    """Of what `readelf -V` prints: the versions of symbols that a system with glibc 2.GLIBC may lack."""
    allowed = {"GLIBC": f"2.{glibc}", **NEWEST[glibc]}
    needed = set(re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\w.]+) ", printed))
    return sorted(f"{library}_{version}" for library, version in needed
                  if not re.fullmatch(r"[\d.]+", version) or numbers(version) > numbers(allowed[library]))


def wrong_libraries(printed, own):
    """Of what `readelf -d` prints: the libraries that neither the system nor the wheel has."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", printed))
    return sorted(needed - SYSTEM - own)


def wrong_in_object(path, glibc, own):
    def read(option):
        return subprocess.run(["readelf", "--wide", option, path], capture_output=True, text=True, check=True).stdout

    yield from (f"needs {version}" for version in wrong_versions(read("-V"), glibc))
    yield from (f"needs {library}" for library in wrong_libraries(read("-d"), own))
    sections = re.findall(r"\] (\.symtab|\.debug_\w+)", read("-S"))
    yield from (f"has {section}: it is not stripped" for section in sections)


def wrong_tags(name, wheel_file):
    """WHEEL has to say what the file's NAME says."""
    tags = re.findall(r"^Tag: (.*)$", wheel_file, re.MULTILINE)
    tag = f"{name['python']}-{name['abi']}-manylinux_2_{name['glibc']}_{name['machine']}"
    if tags != [tag]:
        yield f"WHEEL says {tags}, the name {tag}"
    if name["abi"] not in ("abi3", name["python"]):
        yield f"{name['python']} has no ABI {name['abi']}"
    if name["abi"] == "abi3" and int(name["python"][3:]) < 12:
        yield "nanobind has a stable ABI from CPython 3.12 on"
    if int(name["glibc"]) not in NEWEST:
        yield f"no versions are known for glibc 2.{name['glibc']}"


def wrong_files(names, wanted):
    yield from (f"lacks {file}" for file in sorted(wanted - set(names)))
    yield from (f"has {file}" for file in sorted(set(names) - wanted))
    if len(set(names)) != len(names):
        yield "has a file twice"


def wrong_in(wheel, source, forbidden):
    """A line for each thing that is wrong."""
    name = NAME.fullmatch(wheel.name)
    if name is None:
        return [f"{wheel.name} is no name of a wheel of vmart with a manylinux tag"]
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder)
        names = [entry for entry in archive.namelist() if not entry.endswith("/")]
        wrong = list(wrong_files(names, expected(source, name)))
        info = pathlib.Path(folder, f"vmart-{name['version']}.dist-info", "WHEEL")
        wrong += wrong_tags(name, info.read_text(encoding="utf-8") if info.is_file() else "")
        size = wheel.stat().st_size
        if size > SIZE_MAX:
            wrong.append(f"{size} bytes, which is more than {SIZE_MAX}")
        objects = [path for path in sorted(pathlib.Path(folder).rglob("*")) if is_object(path)]
        own = {path.name for path in objects}
        if int(name["glibc"]) in NEWEST:
            wrong += [f"{path.name} {what}" for path in objects
                      for what in wrong_in_object(path, int(name["glibc"]), own)]
        wrong += wrong_entries(folder)[1]
        for file in names:
            data = pathlib.Path(folder, file).read_bytes()
            wrong += [f"{file} names {text}" for text in forbidden if text.encode() in data]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--forbid", action="append", default=[], help="what no file may contain")
    arguments = parser.parse_args()
    status = 0
    for wheel in arguments.wheels:
        wrong = wrong_in(wheel, arguments.source, arguments.forbid)
        print("\n".join([f"{wheel.name}: {line}" for line in wrong]) or
              f"{wheel.name}: {wheel.stat().st_size} bytes, as its name promises")
        status = status or bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
