#!/usr/bin/env python3
"""c_interface.py --include DIR --library libvmart.so --version X.Y.Z [--write]: the C interface as programs see it, compared
with that of the last release, which c_interface.json describes. With --write, that file is written instead: it is then
the description of this version.

Names, types and signatures come from clang's syntax tree of the headers, sizes, offsets and values from a program that
it compiles, and the versions of symbols from the library.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RELEASE = pathlib.Path(__file__).resolve().parent / "c_interface.json"
HEADERS = ("vma/vmart.h", "vma/vmart_torch.h")
NOT_EXPORTED = "-"
PRIVATE = {"vmart_run_table"}  # For libvmart-run of the same build.


def find_clang():
    return next(filter(None, map(shutil.which, ["clang"] + [f"clang-{n}" for n in range(16, 23)])), None)


def checked(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def _measured(clang, folder, includes, structs, constants):
    """Sizes and offsets of members, and values of constants, as (kind, name, number)."""
    lines = [f'printf("size {name} %zu\\n", sizeof({name}));' for name in structs]
    lines += [f'printf("offset {name}.{member} %zu\\n", offsetof({name}, {member}));'
              for name, members in structs.items() for member in members]
    lines += [f'printf("constant {name} %lld\\n", (long long){name});' for name in constants]
    source = folder / "measure.c"
    source.write_text("#include <stdio.h>\n" + includes + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n",
                      encoding="utf-8")
    checked(clang, "-std=c99", "-w", f"-I{folder}", source, "-o", folder / "measure")
    for line in checked(folder / "measure").splitlines():
        kind, name, number = line.split()
        yield kind, name, int(number)


def _symbols(library):
    """Versions by name."""
    printed = checked("nm", "--dynamic", "--defined-only", library)
    return dict(re.findall(r" T (vmart_\w+)@@(\w[\w.]*)$", printed, re.MULTILINE))


def describe(include, library, clang, version):
    functions, types, structs, constants = {}, {}, {}, []
    includes = "".join(f"#include <{header}>\n" for header in HEADERS)
    symbols = _symbols(library)
    with tempfile.TemporaryDirectory(prefix="vmart-c-interface-") as name:
        folder = pathlib.Path(name)
        shutil.copytree(pathlib.Path(include) / "vma", folder / "vma")
        (folder / "all.c").write_text(includes, encoding="utf-8")
        tree = json.loads(checked(clang, "-std=c99", f"-I{folder}", "-fsyntax-only", "-Xclang", "-ast-dump=json",
                                  folder / "all.c"))
        for node in tree["inner"]:
            kind, name = node["kind"], node.get("name", "")
            if kind == "EnumDecl":
                constants += [each["name"] for each in node.get("inner", ()) if each["kind"] == "EnumConstantDecl"
                              and each["name"].startswith("VMART_")]
            elif not name.startswith("vmart_"):
                continue
            elif kind == "FunctionDecl":
                functions[name] = f"{symbols.get(name, NOT_EXPORTED)}: {node['type']['qualType']}"
            elif kind == "RecordDecl" and node.get("completeDefinition"):
                structs[name] = {each["name"]: each["type"]["qualType"] for each in node["inner"] if each["kind"] == "FieldDecl"}
            elif kind == "TypedefDecl":
                types[name] = node["type"]["qualType"]
        measured = {(kind, name): number
                    for kind, name, number in _measured(clang, folder, includes, structs, constants)}
    return {
        "version": version,
        "functions": functions,
        "types": types,
        "structs": {name: {"size": measured["size", name],
                           "members": {member: f"{measured['offset', f'{name}.{member}']}: {kind}" for member, kind in members.items()}}
                    for name, members in structs.items()},
        "constants": {name: measured["constant", name] for name in constants},
        "private": {name: version for name, version in symbols.items() if name not in functions},
    }


def _changed(what, before, now):
    """Of names that a release had: which are missing or have another value."""
    for name, value in before.items():
        if name not in now:
            yield f"{what} {name} is missing"
        elif now[name] != value:
            yield f"{what} {name} was {value}, and is {now[name]}"


def _changed_struct(name, before, now):
    yield from _changed(f"member of {name}:", before["members"], now["members"])
    # Who fills a struct says how much of it he knows.
    grows = next(iter(before["members"]), "") == "size_bytes"
    if now["size"] < before["size"] or now["size"] != before["size"] and not grows:
        yield f"struct {name} had {before['size']} bytes, and has {now['size']}"
    for member, place in now["members"].items():
        if member not in before["members"] and int(place.partition(":")[0]) < before["size"]:
            yield f"new member {member} of {name} lies inside of what the release had: at {place}"


def _numbers(version):
    return tuple(map(int, version.split(".")))


def incompatible(release, now):
    """What programs that were built with the release would notice, one line each."""
    found = [*_changed("function", release["functions"], now["functions"]), *_changed("type", release["types"], now["types"]),
             *_changed("constant", release["constants"], now["constants"])]
    for name, struct in release["structs"].items():
        if name in now["structs"]:
            found += _changed_struct(name, struct, now["structs"][name])
        else:
            found.append(f"struct {name} is missing")
    old_nodes = {function.partition(":")[0] for function in release["functions"].values()}
    for name, function in now["functions"].items():
        node = function.partition(":")[0]
        if node == NOT_EXPORTED:
            found.append(f"function {name} is declared, but not exported")
        elif name not in release["functions"] and node in old_nodes and _numbers(now["version"]) > _numbers(release["version"]):
            found.append(f"function {name} is new, but has the version {node} of a release: name it in a node of its own "
                         f"in runtime/vmart.map.in")
    found += [f"{name} is exported as {node}, but not declared" for name, node in now["private"].items() if name not in PRIVATE]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    now = describe(arguments.include, arguments.library, find_clang(), arguments.version)
    if arguments.write:
        RELEASE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    found = incompatible(json.loads(RELEASE.read_text(encoding="utf-8")), now)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
