"""A root file system as a new machine has it: Debian by debootstrap, in which a reader may use sudo and has a
copy of the source tree. Needs root. It lives in namespaces of mounts and processes that end with this process.

The folder CACHE keeps what debootstrap made, SUITE. Compilations are looked up in this machine's ccache, but
nothing from here is added to it, because what is compiled here is the reader's."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

EXIT_SKIPPED = 77
HOME = "home/reader"
# What tells this machine's clients of packages where the network is; a new machine has its own.
NETWORK = ("etc/resolv.conf", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
# Debian's debootstrap knows neither the release nor the keys of Ubuntu.
UBUNTU = ("jammy", "noble")
UBUNTU_MIRROR = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
UBUNTU_KEYS_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
QEMU = {"arm64": "qemu-aarch64"}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class CannotMake(Exception):
    """What is missing to make a root file system here."""


def require_means(suite):
    if os.geteuid() != 0:
        raise CannotMake("needs root")
    for program in ("debootstrap", "unshare"):
        if shutil.which(program) is None:
            raise CannotMake(f"needs {program}")
    _, _, machine = suite.partition(":")
    if machine and not pathlib.Path("/proc/sys/fs/binfmt_misc", QEMU[machine]).exists():
        raise CannotMake(f"needs qemu-user-static and binfmt-support, and {QEMU[machine]} in /proc/sys/fs/binfmt_misc")


def enter_namespaces(work):
    """Starts this program again where its mounts and processes end with it. Returns a folder in WORK, there alone; it
    is removed here, where nothing is mounted in it."""
    if folder := os.environ.pop("VMART_FRESH_ROOT", None):
        return pathlib.Path(folder)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        done = subprocess.run(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork",
                               "--kill-child", sys.executable, "-B", *sys.argv],
                              env={**os.environ, "VMART_FRESH_ROOT": folder}, check=False)
    sys.exit(done.returncode)


def start(arguments):
    """Returns the base of arguments.suite and a folder, both for FreshRoot. Ends this process where there can be none."""
    try:
        require_means(arguments.suite)
    except CannotMake as reason:
        print(f"SKIPPED: {reason}")
        sys.exit(EXIT_SKIPPED)
    folder = enter_namespaces(arguments.work)
    return make_base(arguments.suite, arguments.cache), folder


def fetch_ubuntu_keys(cache):
    """Returns the options of debootstrap that name them."""
    with urllib.request.urlopen(f"{UBUNTU_MIRROR}/{UBUNTU_KEYS}", timeout=60) as answer:
        package = answer.read()
    if hashlib.sha256(package).hexdigest() != UBUNTU_KEYS_SHA256:
        raise CannotMake("the keys of Ubuntu are not those that are known")
    (cache / "ubuntu-keyring.deb").write_bytes(package)
    subprocess.run(["dpkg", "-x", cache / "ubuntu-keyring.deb", cache / "ubuntu-keyring"], check=True)
    return ["--components=main,universe", f"--keyring={cache}/ubuntu-keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"]


def make_base(suite, cache):
    """Leaves it in CACHE/SUITE, unless it is there. SUITE may name another machine's Debian, as in trixie:arm64: its
    programs run by qemu. They get no other user's rights so, and sudo does not work: it has Python's environments."""
    name, _, machine = suite.partition(":")
    suite = f"{name}-{machine}" if machine else name
    base = cache / suite
    if base.exists():
        return base
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"{suite}.new"
    shutil.rmtree(made, ignore_errors=True)
    options, where, included = [], [], "ca-certificates,ccache,sudo"
    if machine:
        options.append(f"--arch={machine}")
        included += ",python3-venv"
    if suite in UBUNTU:
        options, where = fetch_ubuntu_keys(cache), [UBUNTU_MIRROR, "gutsy"]
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={included}", *options, name, made, *where],
                   check=True)
    subprocess.run(["chroot", made, "useradd", "--create-home", "--shell", "/bin/bash", "reader"], check=True)
    (made / "etc/sudoers.d/reader").write_text("reader ALL=(ALL) NOPASSWD: ALL\n", encoding="ascii")
    (made / "etc/default/locale").write_text("LANG=C.UTF-8\n", encoding="ascii")
    (made / "etc/dpkg/dpkg.cfg.d/90reader").write_text("force-unsafe-io\n", encoding="ascii")
    (made / "etc/apt/apt.conf.d/90reader").write_text('APT::Get::Assume-Yes "true";\n', encoding="ascii")
    if suite in UBUNTU:  # Where its newer compilers are; Debian has them in the suite itself.
        (made / "etc/apt/sources.list.d/updates.list").write_text(f"deb {UBUNTU_MIRROR} {suite}-updates main universe\n", encoding="ascii")
    made.rename(base)
    return base


class FreshRoot:
    """Requires: enter_namespaces()."""

    def __init__(self, base, folder, source, toolkit):
        self.root = folder / "root"
        self.tree = self.root / HOME / "vmart"
        self._state = self.root / "tmp" / "state.sh"
        subprocess.run(["cp", "-a", "--reflink=auto", base, self.root], check=True)
        self._mount()
        for name in NETWORK:
            if (file := pathlib.Path("/", name)).exists():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, self.root / name)
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n", encoding="ascii")
        if toolkit:  # Of a CUDA toolkit, the build needs the headers.
            shutil.copytree(toolkit, self.root / "usr/local/cuda/include")
        self._copy_tree(source, self.tree)

    def _mount(self):
        dev = self.root / "dev"
        self._call("mount", "-t", "proc", "proc", self.root / "proc")
        self._call("mount", "-t", "sysfs", "-o", "ro", "sysfs", self.root / "sys")
        self._call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", dev)
        for name in DEVICES:
            (dev / name).touch()
            self._call("mount", "--bind", f"/dev/{name}", dev / name)
        (dev / "fd").symlink_to("/proc/self/fd")
        for name, kind in (("shm", "tmpfs"), ("pts", "devpts")):
            (dev / name).mkdir()
            self._call("mount", "-t", kind, kind, dev / name)
        self._share_ccache()

    def _share_ccache(self):
        found = subprocess.run(["ccache", "--get-config", "cache_dir"], stdout=subprocess.PIPE, text=True, check=False) \
            if shutil.which("ccache") else None
        if found is None or found.returncode != 0 or not os.path.isdir(found.stdout.strip()):
            return
        inside = self.root / "var/cache/ccache"
        inside.mkdir()
        self._call("mount", "--bind", found.stdout.strip(), inside)
        self._call("mount", "-o", "remount,bind,ro", inside)
        (self.root / "etc/ccache.conf").write_text(
            f"cache_dir = /var/cache/ccache\ntemporary_dir = /tmp\nread_only = true\nstats = false\nsloppiness = locale\nbase_dir = /{HOME}/vmart\n"
            "hash_dir = false\ncompiler_check = content\n", encoding="ascii")

    def _copy_tree(self, source, target):
        """What git has and what it does not ignore."""
        target.mkdir()
        files = subprocess.run(["git", "-c", "safe.directory=*", "-C", source, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard", "--deduplicate"], stdout=subprocess.PIPE, check=True).stdout
        there = [name for name in files.split(b"\0") if name and os.path.lexists(os.path.join(os.fsencode(source), name))]
        with subprocess.Popen(["tar", "-C", source, "--null", "--files-from=-", "-c"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writing:
            with subprocess.Popen(["tar", "-C", target, "-x"], stdin=writing.stdout) as reading:
                writing.stdin.write(b"\0".join(there))
                writing.stdin.close()
            if writing.wait() != 0 or reading.returncode != 0:
                raise CannotMake("the source tree could not be copied")
        self._call("chroot", self.root, "chown", "-R", "reader:reader", f"/{HOME}")

    @staticmethod
    def _call(*command):
        subprocess.run(command, check=True)

    def open_terminal(self):
        """The next commands find the environment of a new login."""
        self._state.unlink(missing_ok=True)

    def run(self, commands, limit_s):
        """As the reader types them into one terminal after the other: variables stay, and the folder. They stop at
        the first that fails. Returns the exit status and what they print."""
        script = self.root / "tmp" / "commands.sh"
        script.write_text('cd ~/vmart\n[ -f /tmp/state.sh ] && . /tmp/state.sh\nset -euo pipefail\n'
                          f"{commands}\n" '{ export -p; printf "cd %q\\n" "$PWD"; } > /tmp/state.sh\n', encoding="utf-8")
        with subprocess.Popen(["chroot", self.root, "su", "--login", "reader", "-c", "bash /tmp/commands.sh"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, start_new_session=True) as process:
            try:
                printed, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                raise
        return process.returncode, printed
