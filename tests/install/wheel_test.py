#!/usr/bin/env python3
"""wheel_test.py SUITE --wheels DIR --source DIR --cache DIR --work DIR: installs and uses a wheel as
docs/tutorial/python.md tells its reader to, on a new machine (tests/docs/fresh_root.py) without a compiler, a GPU and
a network of its own. SUITE is of Debian: bookworm and newer have a Python that wheels are for. On an older one, whose
glibc is the oldest that a wheel may meet, what the wheel contains is unpacked and used without Python. On another
machine's, such as trixie:arm64, the processor is emulated.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
import fresh_root
import pages

MARK = "not run: needs a wheel; tests/install/wheel_test.py runs it as typed"
LIMIT_S = 600
NO_COMPILER = "test -z \"$(command -v cc c++ gcc g++ clang cmake)\"; test ! -e /usr/include/stdio.h; test ! -e /usr/local/cuda"
# What the tools print, and that they use what lies beside them.
TOOLS = (("vmart --version", r"^vmart \d+\.\d+\.\d+"),
         ("VMART_DRIVER=sim:h200x2 vmart demo --mib 8", r"lies at(.*\n)*.*gpu1"),
         ("if env -u VMART_DRIVER vmart demo --mib 8 2>&1; then exit 1; fi", r"no NVIDIA driver was found"),
         ("vmart run -- grep libvmart-run.so /proc/self/maps", r"/lib(/[a-z0-9_]+-linux-gnu)?/libvmart-run\.so"),
         ("if vmart run --way shim -- true 2>&1; then exit 1; fi", r"no NVIDIA driver was found"),
         ("vmart-lab generate phase-change /tmp/phases.jsonl --param gpus=2 --param phases=2", r"60000 access"),
         ("gzip /tmp/phases.jsonl", ""),
         ("vmart-lab replay /tmp/phases.jsonl.gz --machine h200x2", r"60000 accesses of .* took"))


class Wrong(Exception):
    pass


class Machine:
    def __init__(self, root):
        self._root = root

    def type(self, commands, limit_s=LIMIT_S):
        """Returns what they print."""
        begin = time.monotonic()
        status, printed = self._root.run(commands, limit_s)
        print(f"$ {commands.strip()}\n{printed}[{time.monotonic() - begin:.1f} s]", flush=True)
        if status != 0:
            raise Wrong(f"exit status {status} of\n{commands}")
        return printed

    def use_tools(self):
        for command, shown in TOOLS:
            if not re.search(shown, printed := self.type(command)):
                raise Wrong(f"{shown} is not in\n{printed}")


def follow_page(machine, page, tree, emulated):
    """The commands for a wheel, and the page's first program with what it shows."""
    typed = re.findall(rf"^<!-- {re.escape(MARK)} -->\n```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    blocks = list(pages.blocks(page))
    first = [mark for mark, _, _ in blocks].index("file: first_move.py")
    program, started, shown = [text for _, _, text in blocks[first:first + 3]]
    (tree / "first_move.py").write_text(program, encoding="utf-8")
    begin = time.monotonic()
    if not emulated:
        machine.type(typed[0])
    version = machine.type("python3 -c 'import sys; print(sys.version_info.minor)'").split()[-1]
    machine.type(typed[1].replace("cp311", f"cp3{min(int(version), 12)}"))
    pages.require_shown(shown, machine.type(started))
    print(f"=== to the first move: {time.monotonic() - begin:.1f} s", flush=True)


def unpack(wheel, tree):
    """As pip does, with the programs where the page's environment has them."""
    folder = tree / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = pathlib.Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)


def use_without_python(machine, wheels, tree):
    unpack(next(wheels.glob("*-abi3-*.whl")), tree)
    machine.type("export PATH=$PWD/unpacked/vmart/bin:$PATH")
    for name in ("bin/vmart", "bin/vmart-lab", "lib/libvmart.so.0.*", "lib/libvmart-run.so", "_core.abi3.so", "_lab.abi3.so"):
        printed = machine.type(f"ldd -r unpacked/vmart/{name} 2>&1")
        wrong = [line for line in printed.splitlines()
                 if "not found" in line or ("undefined symbol" in line and not re.search(r"symbol: _?Py", line))]
        if wrong:
            raise Wrong("\n".join(wrong))


def use_wheels(arguments, base, folder):
    root = fresh_root.FreshRoot(base, folder, arguments.source, None)
    shutil.copytree(arguments.wheels, root.tree / "build" / "wheels")
    machine = Machine(root)
    root.open_terminal()
    machine.type(NO_COMPILER)
    if arguments.suite == "bullseye":
        use_without_python(machine, arguments.wheels, root.tree)
        machine.use_tools()
        return
    follow_page(machine, (arguments.source / "docs/tutorial/python.md").read_text(encoding="utf-8"), root.tree,
                emulated=":" in arguments.suite)
    machine.use_tools()
    machine.type("python3 -m vmart.lab --help")
    machine.type("pip uninstall --yes vmart; test ! -e vmart-env/bin/vmart; test -z \"$(find vmart-env -path '*site-packages/vmart*')\"")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    for name in ("wheels", "source", "cache", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    base, folder = fresh_root.start(arguments)
    try:
        use_wheels(arguments, base, folder)
    except (Wrong, pages.Wrong, subprocess.TimeoutExpired) as wrong:
        sys.exit(f"{arguments.suite}: {wrong}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
