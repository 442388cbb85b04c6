#!/usr/bin/env bash
# Builds wheels of the Python package that run on any Linux with glibc 2.31 or newer, into build/wheels: one for
# CPython 3.12 and newer, and one each for 3.10 and 3.11. docs/internals/dependencies.md says how.
#
#   .ci/wheels.sh [--twice] [--machine x86_64|aarch64] [PYTHON...]
#
# PYTHON: the interpreters; by default those of python3.10, python3.11 and python3.12 that there are, and there has to
# be a python3.12 or newer. --twice builds all again in another folder, with an empty ccache, and compares. --machine:
# the processors that the wheels are for, by default this machine's. A cross-compiler compiles for others, into
# build/wheels-MACHINE; what type checkers read is taken from a wheel in build/wheels.
set -euo pipefail
# shellcheck source=.ci/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

glibc=2.31 suite=bullseye  # Of Debian 11.
cache=$deps/wheels
cuda_include=$cache/cuda/nvidia/cu13/include
twice=
pythons=()

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }

# use_machine NAME: the processors for which is compiled, and by which compiler.
use_machine() {
  machine=$1 triplet=$1-linux-gnu
  sysroot=$cache/sysroot-$suite-$machine link=$cache/link-$machine tool=
  if [[ $machine != "$(uname -m)" ]]; then tool=$triplet-; fi
}
use_machine "$(uname -m)"

read_arguments() {
  while (($# > 0)); do
    case $1 in
      --twice) twice=1 ;;
      --machine)
        case ${2:-} in x86_64 | aarch64) use_machine "$2" ;; *) usage ;; esac
        shift ;;
      -*) usage ;;
      *) pythons+=("$1") ;;
    esac
    shift
  done
  ((${#pythons[@]} > 0)) || find_pythons
}

# pyenv starts only the versions that are named.
find_pythons() {
  local minor python versions='' stable=
  if has_command pyenv; then versions=$(pyenv versions --bare --skip-aliases | paste -s -d :); fi
  for minor in 10 11 12 13 14; do
    [[ -z $stable ]] || return 0
    python=$(PYENV_VERSION=$versions "python3.$minor" -c 'import sys; print(sys.executable)' 2>/dev/null) || continue
    pythons+=("$python")
    if ((minor >= 12)); then stable=1; fi
  done
  [[ -n $stable ]] || missing+=("python3.12 or newer")
}

set_up_wheels() {
  need_command g++ g++
  [[ -z $tool ]] || need_command "${tool}g++" "g++-${tool%-}"
  need_command debootstrap debootstrap
  need_header fmt/format.h libfmt-dev
  need_header CLI/CLI.hpp libcli11-dev
  set_up_boost
  stop_if_missing
  has_cuda_header "$cuda_include" || fetch_wheels "$root/.ci/wheel-headers.txt" "$cache/cuda" "headers of CUDA"
  make_sysroot
  make_headers
  make_link_folder
}

debian_machine() { if [[ $machine == aarch64 ]]; then echo arm64; else echo amd64; fi; }

# The C library of an older Debian, and what belongs to it. Packages are unpacked, nothing of them runs.
make_sysroot() {
  [[ -d $sysroot ]] && return
  say "fetching Debian's $suite (glibc $glibc)"
  rm -rf "$sysroot.new" "$sysroot.debs"
  mkdir -p "$sysroot.new"
  as_root debootstrap --download-only --variant=minbase \
    --arch="$(debian_machine)" --include=libc6-dev,libgcc-10-dev,libstdc++6,zlib1g-dev "$suite" "$sysroot.debs" >"$deps/debootstrap.log" 2>&1 ||
    { tail -n 3 "$deps/debootstrap.log"; return 1; }
  local name link
  for name in libc6 libc6-dev libcrypt1 libcrypt-dev libgcc-s1 libgcc-10-dev libstdc++6 linux-libc-dev zlib1g zlib1g-dev; do
    dpkg -x "$sysroot.debs/var/cache/apt/archives/${name}"_*.deb "$sysroot.new"
  done
  as_root rm -rf "$sysroot.debs"
  find "$sysroot.new" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$sysroot.new$(readlink "$link")" "$link"
  done
  mv "$sysroot.new" "$sysroot"
}

# Headers that do not depend on the C library lie apart from those of this machine that do. fmt is compiled in.
make_headers() {
  local boost=/usr/include/boost fmt=$cache/headers/lib/cmake/fmt version
  if [[ -d $deps/boost/usr ]]; then boost=$deps/boost/usr/include/boost; fi
  rm -rf "$cache/headers"
  mkdir -p "$cache/headers/include" "$fmt"
  ln -s "$boost" /usr/include/fmt /usr/include/CLI "$cache/headers/include"
  version=$(printf '#include <fmt/core.h>\nFMT_VERSION\n' | g++ -E -P -x c++ - | tail -n 1)
  cat >"$fmt/fmt-config.cmake" <<'END'
add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY
  INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/../../../include)
END
  printf 'set(PACKAGE_VERSION %d.%d)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' \
    $((version / 10000)) $((version / 100 % 100)) >"$fmt/fmt-config-version.cmake"
}

# One C++ library serves a process, the system's. What this compiler's has beyond the old one is taken into each
# object. libgcc_eh is the old one, since the new one asks the C library for what 2.31 lacks; so does a static
# C++ library, which gets it here.
make_link_folder() {
  rm -rf "$link"
  mkdir -p "$link"
  printf 'INPUT(%s %s)\n' "$sysroot/usr/lib/$triplet/libstdc++.so.6" \
    "$(realpath "$("${tool}g++" -print-file-name=libstdc++.a)")" >"$link/libstdc++.so"
  cat >"$link/newer_glibc.c" <<'END'
#include <sys/random.h>
char __libc_single_threaded = 0; /* Right with any number of threads. */
unsigned arc4random(void) {
  unsigned drawn;
  while (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) {
  }
  return drawn;
}
END
  "${tool}g++" --sysroot="$sysroot" -x c -O2 -fPIC -c "$link/newer_glibc.c" -o "$link/newer_glibc.o"
  cp "$sysroot/usr/lib/gcc/$triplet/10/libgcc_eh.a" "$link"
  "${tool}ar" rD "$link/libgcc_eh.a" "$link/newer_glibc.o"
}

# Nothing that is compiled names a folder of this machine. The folders of headers are named one by one, since a
# cross-compiler brings a C library of its own.
write_toolchain() {
  local work=$1 system
  system=$("${tool}g++" -E -x c++ -v /dev/null 2>&1 | sed -n '/^#include </,/^End/s/^ \(.*c++.*\)/-isystem \1/p' | paste -s -d ' ')
  system+=" -isystem $("${tool}g++" -print-file-name=include)"
  system+=" -isystem $sysroot/usr/include/$triplet -isystem $sysroot/usr/include"
  cat >"$work/toolchain.cmake" <<END
set(CMAKE_SYSROOT $sysroot)
set(CMAKE_CXX_COMPILER ${tool}g++)
$([[ -z $tool ]] || printf 'set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR %s)\n' "$machine")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # An absolute path would leave its length in an installed library.
set(CMAKE_CXX_FLAGS_INIT "-nostdinc $system -ffile-prefix-map=$deps/= -ffile-prefix-map=$work/=")
set(linking "-B$sysroot/usr/lib/$triplet -L$sysroot/lib/$triplet -L$link -Wl,-s")
set(linking "\${linking} -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_\${kind}_LINKER_FLAGS_INIT "\${linking}")
endforeach()
set(fmt_DIR $cache/headers/lib/cmake/fmt)
set(Boost_ROOT $cache/headers)
set(Boost_NO_SYSTEM_PATHS ON)
set(VMART_CLI11_INCLUDE_DIR $cache/headers/include CACHE PATH "")
set(VMART_CUDA_INCLUDE_DIR $cuda_include CACHE PATH "")
set(VMART_NVTX_INCLUDE_DIR $cuda_include CACHE PATH "")
set(VMART_TYPE_STUBS $work/stubs)
set(ZLIB_USE_STATIC_LIBS ON)
END
}

# environment_of PYTHON: prints the folder of a virtual environment with what builds and checks wheels.
environment_of() {
  local folder python=$1 lists=("$root/.ci/python-wheels.txt" "$root/.ci/python-extension.txt")
  folder=$cache/venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  cat "${lists[@]}" | cmp -s - "$folder/lists" || make_environment "$folder" "${lists[@]}" >&2
  echo "$folder"
}

# lay_source WORK: the files that git knows, in WORK/source, and when they were committed.
lay_source() {
  local work=$1 tree
  rm -rf "$work"
  mkdir -p "$work/source"
  tree=$(git -C "$root" stash create)
  git -C "$root" archive "${tree:-HEAD}" | tar -x -C "$work/source"
  echo "node: $(git -C "$root" rev-parse HEAD)" >"$work/source/.git_archival.txt"  # Not that of the stash.
  SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
}

# take_type_stubs WORK: into WORK/stubs. An extension that is compiled for another machine cannot write them.
take_type_stubs() {
  local native
  native=$(find "$root/build/wheels" -name '*-abi3-*.whl' 2>/dev/null | head -n 1)
  [[ -n $native ]] || { say "build/wheels has no wheel for this machine: run .ci/wheels.sh first"; return 1; }
  python3 -m zipfile -e "$native" "$1/native"
  mkdir -p "$1/stubs"
  mv "$1"/native/vmart/_*.pyi "$1/stubs"
  rm -r "$1/native"
}

# build_wheels WORK: into WORK/wheels. The builds take turns in one folder, so that
# ccache has for the second what the first has compiled; its rewriting of paths would show in messages.
build_wheels() {
  local work=$1 python environment
  lay_source "$work"
  mkdir -p "$work/wheels"
  write_toolchain "$work"
  [[ -z $tool ]] || take_type_stubs "$work"
  for python in "${pythons[@]}"; do
    environment=$(environment_of "$python")
    say "building a wheel with $("$python" --version)"
    rm -rf "$work/build" "$work/linux"
    (cd "$work/source" && PATH=$environment/bin:$PATH CCACHE_BASEDIR='' CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
      "$environment/bin/python" -m pip wheel -q . --no-build-isolation --no-deps --no-cache-dir -w "$work/linux" \
      --config-settings=wheel.py-api=cp312 --config-settings=build-dir="$work/build" \
      --config-settings=cmake.args="-DCMAKE_TOOLCHAIN_FILE=$work/toolchain.cmake")
    "$environment/bin/python" -m wheel tags --remove --platform-tag="manylinux_${glibc/./_}_$machine" \
      "$work"/linux/*.whl >/dev/null
    mv "$work"/linux/*.whl "$work/wheels"
  done
}

check_wheels() {
  local environment
  environment=$(environment_of "${pythons[-1]}")
  python3 -B "$root/tests/install/wheel_check.py" --source "$1/source" --forbid "$root" "$1"/wheels/*.whl
  "$environment/bin/python" - "manylinux_${glibc/./_}_$machine" "$1"/wheels/*.whl <<'END'
import pathlib
import sys

from auditwheel.wheel_abi import analyze_wheel_abi
from auditwheel.wheeltools import get_wheel_architecture, get_wheel_libc

for wheel in map(pathlib.Path, sys.argv[2:]):
    found = analyze_wheel_abi(get_wheel_libc(wheel.name), get_wheel_architecture(wheel.name), wheel,
                              frozenset(), disable_isa_ext_check=False, allow_graft=False)
    print(f"auditwheel: {wheel.name} is consistent with {found.overall_policy.name}")
    if found.overall_policy.name != sys.argv[1]:
        sys.exit(1)
END
}

# list_contents FOLDER [ENVIRONMENT]: beside each wheel or package, what it contains; and the sums of all.
list_contents() {
  local folder=$1 nanobind='' versions=() name value zlib=$sysroot/usr/include/zlib.h
  if [[ -n ${2:-} ]]; then
    nanobind=$("$2/bin/python" -c 'import importlib.metadata; print(importlib.metadata.version("nanobind"))')
  fi
  while read -r name value; do
    if [[ $name == fmt ]]; then value=$((value / 10000)).$((value / 100 % 100)).$((value % 100)); fi
    value=${value//\"/}
    versions+=(--version "$name=${value//_/.}")
  done < <(printf '%s\n' '#include <boost/version.hpp>' '#include <fmt/core.h>' '#include <CLI/Version.hpp>' \
    'boost BOOST_LIB_VERSION' 'cli11 CLI11_VERSION' 'fmt FMT_VERSION' |
    g++ -E -P -x c++ -I "$deps/boost/usr/include" - | sed -nE '/^(boost|cli11|fmt) [^ ]+$/p')
  [[ ! -f $zlib ]] || versions+=(--version "zlib=$(sed -n 's/^#define ZLIB_VERSION "\(.*\)"/\1/p' "$zlib")")
  versions+=(--version "gcc_runtime=$(g++ -dumpfullversion)")
  [[ -z $nanobind ]] || versions+=(--version "nanobind=$nanobind")
  find "$folder" -maxdepth 1 -type f \( -name '*.whl' -o -name '*.deb' -o -name '*.tar.gz' \) -print0 |
    xargs -0 python3 -B "$root/.ci/sbom.py" "${versions[@]}" --
  "$root/.ci/sign.sh" "$folder"
  cat "$folder/SHA256SUMS"
}

main() {
  local results work wheel
  jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  mkdir -p "$deps" "$cache"
  read_arguments "$@"
  results=$root/build/wheels${tool:+-$machine} work=$root/build/wheels.work
  set_up_wheels
  umask 022
  build_wheels "$work"
  check_wheels "$work"
  if [[ -n $twice ]]; then
    CCACHE_DIR=$work.again/ccache build_wheels "$work.again"
    for wheel in "$work"/wheels/*.whl; do cmp "$wheel" "$work.again/wheels/${wheel##*/}"; done
    say "built twice, equal byte for byte"
  fi
  rm -rf "$results"
  mv "$work/wheels" "$results"
  list_contents "$results" "$(environment_of "${pythons[-1]}")"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi  # .ci/packages.sh uses the rest.
