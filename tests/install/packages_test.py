#!/usr/bin/env python3
"""packages_test.py SUITE build|use --source DIR --packages DIR --cache DIR --work DIR: packages for the distribution SUITE
(bookworm, noble), each time on a new machine (tests/docs/fresh_root.py).

`build` runs .ci/packages.sh there and leaves what it makes in DIR/SUITE. `use` types what docs/guide/install.md says, without
a compiler at first: installs, moves memory, compiles in C and C++ by pkg-config and CMake, and removes. Then the files of the
machine are those that it had. The tarball, DIR/*.tar.gz if there is one, works from two folders. On Debian, the steps of
.ci/Containerfile follow.
"""

import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from wheel_test import LIMIT_S, NO_COMPILER, Machine, Wrong, fresh_root

BUILD_LIMIT_S = 3600
BLOCK = re.compile(r"^<!-- not run: (\w+), typed by [^\n]* -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What every installation leaves: lists, logs and caches of apt and dpkg, and what the reader makes. tzdata, which Python needs
# on Ubuntu, takes etc/localtime along.
NOT_COMPARED = ("var/lib/apt", "var/lib/dpkg", "var/log", "var/cache", "etc/ld.so.cache", "etc/localtime", "home", "tmp", "run", "proc", "sys",
                "dev", "root", "var/tmp")
CONSUMER = "tests/install/consumer"
BY_PKG_CONFIG = (f"cc -std=c99 -pedantic -Werror {CONSUMER}/c_consumer.c -o c_consumer $(pkg-config --cflags --libs vmart)",
                 "./c_consumer")
BY_CMAKE = (f"cmake -S {CONSUMER} -B consumer -DCMAKE_BUILD_TYPE=Release", "cmake --build consumer",
            "./consumer/consumer", "./consumer/c_consumer", "VMART_POLICY=follow@$PWD/consumer/follow.so:uses=3 ./consumer/consumer")


def files_of(root):
    """All but what NOT_COMPARED names."""
    excluded = [f"./{name}" for name in NOT_COMPARED]
    prune = " -o ".join(f"-path {shlex.quote(name)}" for name in excluded)
    found = subprocess.run(f"find . \\( {prune} \\) -prune -o -print", shell=True, cwd=root, capture_output=True, text=True, check=True)
    return set(found.stdout.splitlines())


def require_nothing_left(before, root, machine):
    if left := sorted(files_of(root) - before):
        raise Wrong("\n".join(["left behind:", *left]))
    if lost := sorted(before - files_of(root)):
        raise Wrong("\n".join(["taken away:", *lost]))
    if "vmart" in machine.type("dpkg-query -f '${db:Status-Abbrev} ${Package}\\n' -W"):
        raise Wrong("dpkg still knows a package of vmart")


def type_timed(machine, what, commands, limit_s=LIMIT_S):
    begin = time.monotonic()
    printed = machine.type(commands, limit_s)
    print(f"=== {what}: {time.monotonic() - begin:.1f} s", flush=True)
    return printed


def require_move(printed):
    if not re.search(r"lies at(.*\n)*.*gpu1", printed):
        raise Wrong(f"no move is shown in\n{printed}")


def build(arguments, base, folder):
    root = fresh_root.FreshRoot(base, folder, arguments.source, None)
    root.open_terminal()
    status, printed = root.run("sudo apt-get update -qq && .ci/packages.sh deb", BUILD_LIMIT_S)
    print(printed[-6000:], flush=True)
    if status != 0:
        raise Wrong(f"exit status {status} of .ci/packages.sh")
    target = arguments.packages / arguments.suite
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root.tree / "build/packages", target)


def machine_in(arguments, base, folder):
    folder.mkdir()
    root = fresh_root.FreshRoot(base, folder, arguments.source, None)
    made = root.tree / "build/packages"
    shutil.rmtree(root.tree / "build", ignore_errors=True)
    shutil.copytree(arguments.packages / arguments.suite, made)
    for tarball in arguments.packages.glob("*.tar.gz"):
        shutil.copy(tarball, made)
    root.open_terminal()
    return root, Machine(root)


def use(arguments, base, folder):
    page = (arguments.source / "docs/guide/install.md").read_text(encoding="utf-8")
    typed = dict(BLOCK.findall(page))
    root, machine = machine_in(arguments, base, folder / "tools")
    machine.type(NO_COMPILER)
    before = files_of(root.root)
    require_move(type_timed(machine, "packages, to the first move", typed["packages"]))
    machine.use_tools()
    machine.type("sudo vmart-lab --help; man_page=/usr/share/man/man1/vmart.1.gz; test -s $man_page || test -d /usr/share/doc/vmart-tools")
    machine.type(typed["remove"])
    require_nothing_left(before, root.root, machine)
    if list((root.tree / "build/packages").glob("*.tar.gz")):
        use_tarball(machine, typed["tarball"])

    root, machine = machine_in(arguments, base, folder / "dev")
    machine.type("sudo apt-get install g++ cmake pkg-config")
    before = files_of(root.root)
    program = re.search(r"<!-- file: program.cpp -->\n```cpp\n(.*?)^```$", (arguments.source / "docs/guide/compile_and_link.md").read_text(
        encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (root.tree / "program.cpp").write_text(program[1], encoding="utf-8")
    require_move_of_program(type_timed(machine, "with libvmart-dev, to the first move", typed["dev"]))
    machine.type("export VMART_DRIVER=sim:h200x2")
    for command in (*BY_PKG_CONFIG, *BY_CMAKE):
        machine.type(command)
    machine.type(typed["remove"])
    require_nothing_left(before, root.root, machine)
    if arguments.suite == "bookworm":
        run_container_steps(arguments, base, folder)


def require_move_of_program(printed):
    if "64 MiB at host(0)" not in printed:
        raise Wrong(f"no move is shown in\n{printed}")


def use_tarball(machine, typed):
    require_move(type_timed(machine, "tarball, to the first move", typed))
    machine.type("mkdir elsewhere && mv vmart-*-linux-x86_64 elsewhere/moved && export PATH=$PWD/elsewhere/moved/bin:$PATH; "
                 "rm /tmp/phases.jsonl.gz")
    machine.use_tools()
    machine.type("ldd -r elsewhere/moved/lib/libvmart.so && test -s elsewhere/moved/share/doc/vmart/licences/fmt.txt")


def run_container_steps(arguments, base, folder):
    """COPY and RUN, as root, which a builder of images is."""
    root, machine = machine_in(arguments, base, folder / "container")
    begin = time.monotonic()
    for line in (arguments.source / ".ci/Containerfile").read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY":
            source, target = rest.split()
            machine.type(f"sudo mkdir -p {target} && sudo cp {source} {target}")
        elif word == "RUN":
            machine.type(f"sudo sh -c {shlex.quote(rest)}")
        elif word == "ENTRYPOINT":
            machine.type(shlex.join([*json.loads(rest), "--version"]))
        elif word not in ("FROM", "", "#"):
            raise Wrong(f"Containerfile: {word} is not known here")
    print(f"=== container file: {time.monotonic() - begin:.1f} s", flush=True)
    if left := subprocess.run(["find", root.root / "opt", "-mindepth", "1"], capture_output=True, text=True, check=True).stdout:
        raise Wrong(f"the image contains {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("what", choices=("build", "use"))
    for name in ("packages", "source", "cache", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    base, folder = fresh_root.start(arguments)
    try:
        (build if arguments.what == "build" else use)(arguments, base, folder)
    except (Wrong, subprocess.TimeoutExpired) as wrong:
        sys.exit(f"{arguments.suite}: {wrong}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
