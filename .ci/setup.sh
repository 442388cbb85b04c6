# Sourced by examples/demo.sh and tests/run.sh: finds what a build needs and installs what is
# missing, on Debian 12 and Ubuntu 24.04. It asks nothing, removes nothing, and names what it cannot
# get. docs/internals/dependencies.md says what each thing is for.
#
#   set_up demo|tests|long   fills cmake_arguments and clang_version (empty: no clang >= 16)
#
# VMART_FORCE_CUDA_WHEEL=1 and VMART_FORCE_BOOST_UNPACK=1 take the ways meant for machines without a
# CUDA toolkit and with another Boost; VMART_NO_INSTALL=1 only looks.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/build/deps
cmake_arguments=()
clang_version=
apt_lists_fresh=
python=python3
missing=()  # Needed, and not to be had.

# What one build of this tree has compiled serves the others, and those of tests/docs in another root file system.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content CCACHE_SLOPPINESS=locale

say() { printf 'vmart: %s\n' "$*"; }

set_up() {
  local purpose=$1
  mkdir -p "$deps"
  if [[ $purpose == demo ]]; then install_demo_packages; fi
  need_command g++ g++
  need_command cmake cmake
  need_command ninja ninja-build
  need_header fmt/format.h libfmt-dev
  set_up_boost
  if [[ $purpose == demo && ${VMART_DRIVER:-} == sim* ]]; then
    cmake_arguments+=(-DVMART_SIM_ONLY=ON)  # Nothing of CUDA is needed then.
  else
    set_up_cuda_header
    cmake_arguments+=(-DVMART_SIM_ONLY=OFF)
  fi
  if [[ $purpose != demo ]]; then
    want_command ccache ccache "rebuilds are slower" || true
    set_up_tools
    set_up_tests "$purpose"
  fi
  stop_if_missing
  if ! cmake_is_recent; then
    say "CMake 3.22 or newer is needed; this is $(cmake --version | head -n 1)"
    exit 1
  fi
}

# One call of apt is quicker than one a package. What it cannot get is looked at again one by one.
install_demo_packages() {
  local packages=() boost
  has_command g++ || packages+=(g++)
  has_command cmake || packages+=(cmake)
  has_command ninja || packages+=(ninja-build)
  [[ -f /usr/include/fmt/format.h ]] || packages+=(libfmt-dev)
  if [[ ! -d /usr/include/boost ]]; then
    if can_install; then refresh_apt_lists; fi
    if boost=$(boost_package); then packages+=("$boost"); fi
  fi
  ((${#packages[@]} == 0)) || install_packages "${packages[@]}" || true
}

set_up_tools() {
  if want_header CLI/CLI.hpp libcli11-dev "the command lines \`vmart\` and \`vmart-lab\` are not built"; then
    cmake_arguments+=(-DVMART_BUILD_TOOLS=ON)
  else
    cmake_arguments+=(-DVMART_BUILD_TOOLS=OFF)
  fi
  want_header zlib.h zlib1g-dev "the lab reads no compressed traces" || true
}

set_up_tests() {
  local purpose=$1
  need_command python3 python3
  # Debian's own Python sees Debian's packages; another one that stands first in PATH does not.
  if [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
  cmake_arguments+=("-DPython3_EXECUTABLE=$(command -v "$python" || true)")
  need_header gtest/gtest.h libgtest-dev
  need_header gmock/gmock.h libgmock-dev
  if want_header benchmark/benchmark.h libbenchmark-dev "the benchmarks are not built"; then
    cmake_arguments+=(-DVMART_BUILD_BENCH=ON)
  else
    cmake_arguments+=(-DVMART_BUILD_BENCH=OFF)
  fi
  want_command pkg-config pkg-config "the installed package is not tried through pkg-config" || true
  want_command debootstrap debootstrap "the commands of the documentation are not tried" || true
  want_command valgrind valgrind "the Python extension is not checked for lost memory" || true
  set_up_cccl
  set_up_driver_headers
  set_up_old_cmake
  set_up_python_lab "$purpose"
  set_up_clang
  want_command clang-format-16 clang-format-16 "the format is not checked" || true
  if [[ $purpose == long ]]; then
    want_command "clang-tidy-${clang_version:-16}" "clang-tidy-${clang_version:-16}" \
      "clang-tidy is left out" || true
  fi
}

# --- One thing at a time: there already, or installed now. `need_` puts what it cannot get on the
# --- list that ends the run, `want_` says what is lost and goes on (CI may lose nothing).

need_command() { had_or_got "$2" has_command "$1" || missing+=("$2"); }
need_header() { had_or_got "$2" has_header "$1" || missing+=("$2"); }

want_command() { had_or_got "$2" has_command "$1" || forgo "$2" "$3"; }
want_header() { had_or_got "$2" has_header "$1" || forgo "$2" "$3"; }

# had_or_got PACKAGE check...: looked at again after the installation, which may have been of no use.
had_or_got() {
  local package=$1
  shift
  "$@" || { install_packages "$package" && "$@"; }
}

forgo() {
  if [[ ${CI:-} == true ]]; then
    missing+=("$1")
  else
    say "$1 is missing: $2"
  fi
  return 1
}

stop_if_missing() {
  ((${#missing[@]} == 0)) && return
  say "cannot go on without: ${missing[*]}"
  say "install them (as root, or with sudo and a network, this script does) and start again"
  exit 1
}

has_command() { command -v "$1" >/dev/null; }
has_header() { preprocesses "#include <$1>"; }
preprocesses() { printf '%s\n' "$1" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

cmake_is_recent() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  [[ $(printf '%s\n' 3.22 "$version" | sort -V | head -n 1) == 3.22 ]]
}

# --- apt

as_root() {
  if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

can_install() {
  [[ -z ${VMART_NO_INSTALL:-} ]] && command -v apt-get >/dev/null &&
    { ((EUID == 0)) || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
}

refresh_apt_lists() {
  [[ -n $apt_lists_fresh ]] && return
  apt_lists_fresh=yes
  say "reading the package lists (apt-get update)"
  as_root timeout 300 apt-get update -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
    >"$deps/apt.log" 2>&1 || say "apt-get update failed: going on with the lists there are"
}

# --no-remove: apt gives up where it would have to take something away.
install_packages() {
  can_install || return 1
  refresh_apt_lists
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -y -qq --no-remove \
    --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >"$deps/apt.log" 2>&1 && return
  say "apt-get could not install $*: $(grep -m 1 '^E:' "$deps/apt.log" || echo "see $deps/apt.log")"
  return 1
}

# Not a pipe into grep -q: pipefail would see apt-cache die of it.
apt_has() {
  local policy
  policy=$(apt-cache policy "$1" 2>/dev/null) && [[ $policy =~ Candidate:\ *[0-9] ]]
}

# --- clang, for the sanitizers

set_up_clang() {
  local version
  for version in 16 17 18 19 20 21; do
    if has_clang "$version"; then
      clang_version=$version
      return
    fi
  done
  if can_install; then refresh_apt_lists; fi
  for version in 16 18; do
    if apt_has "clang-$version" &&
      install_packages "clang-$version" "libclang-rt-$version-dev"; then
      clang_version=$version
      return
    fi
  done
  forgo "clang-16 libclang-rt-16-dev" "nothing runs under the sanitizers" || true
}

# A clang without its runtime libraries cannot link a sanitized program.
has_clang() {
  command -v "clang++-$1" >/dev/null &&
    echo 'int main() {}' | "clang++-$1" -fsanitize=thread -x c++ - -o "$deps/probe" 2>/dev/null
}

# --- The lab's Python: pip may not install into Debian's, so it has an environment of its own

set_up_python_lab() {
  local lists=("$root/.ci/python-lab.txt" "$root/.ci/python-extension.txt")
  if [[ $1 == long ]]; then
    lists+=("$root/.ci/python-sweep.txt")
    want_command chromium chromium "the lab's page is not opened in a browser" || true
  fi
  if ! has_python_lab "${lists[@]}" && ! make_python_lab "${lists[@]}"; then
    # Not needed to build or to replay; its tests say SKIPPED.
    say "${lists[*]##*/} (PyPI) are missing: the lab's Python is not tested"
    rm -rf "$deps/venv"
    cmake_arguments+=(-UVMART_LAB_PYTHON -DVMART_BUILD_PYTHON=OFF)
    return 0
  fi
  say "the lab's Python: $deps/venv"
  cmake_arguments+=("-DVMART_LAB_PYTHON=$deps/venv/bin/python")
  add_frameworks || say "python-frameworks.txt (PyPI) is missing: its libraries' tests are skipped"
  if had_or_got python3-dev has_python_header ||
    forgo python3-dev "the Python extension is not built"; then
    cmake_arguments+=(-DVMART_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$deps/venv/bin/python")
  else
    cmake_arguments+=(-DVMART_BUILD_PYTHON=OFF)
  fi
}

# Other libraries whose memory moves: into the same environment, which does without if need be.
add_frameworks() {
  local list=$root/.ci/python-frameworks.txt
  cmp -s "$list" "$deps/venv/frameworks" && return
  [[ -z ${VMART_NO_INSTALL:-} ]] || return 1
  install_list "$deps/venv" "$list" && cp "$list" "$deps/venv/frameworks"
}

has_python_header() {
  local folder
  folder=$("$deps/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ -f $folder/Python.h ]]
}

# An environment that has more than these lists is as good.
has_python_lab() {
  [[ -f $deps/venv/lists ]] && "$deps/venv/bin/python" -c 'import pandas, plotly' 2>/dev/null &&
    cat "$@" | cmp -s - <(head -c "$(cat "$@" | wc -c)" "$deps/venv/lists")
}

make_python_lab() {
  say "fetching the lab's Python packages from PyPI"
  make_environment "$deps/venv" "$@"
}

# make_environment FOLDER LIST...: a virtual environment with what the lists pin, and their text in
# FOLDER/lists.
make_environment() {
  local folder=$1 list
  shift
  [[ -z ${VMART_NO_INSTALL:-} ]] || return 1
  "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv || return 1
  rm -rf "$folder"
  "$python" -m venv "$folder" || return 1
  for list in "$@"; do
    install_list "$folder" "$list" || return 1
  done
  cat "$@" >"$folder/lists"
}

install_list() {
  timeout 600 "$1/bin/python" -m pip install -q --disable-pip-version-check --retries 2 \
    --timeout 20 --no-deps --require-hashes --only-binary :all: -r "$2"
}

# --- Boost >= 1.81, headers only

set_up_boost() {
  local unpacked=$deps/boost/usr
  if [[ -z ${VMART_FORCE_BOOST_UNPACK:-} ]]; then
    boost_is_recent && return
    if [[ ! -d $unpacked ]]; then
      if can_install; then refresh_apt_lists; fi
      local package
      package=$(boost_package) && install_packages "$package" && return
    fi
  fi
  [[ -d $unpacked ]] || unpack_boost || { missing+=("libboost-dev (1.81 or newer)"); return; }
  say "Boost: $unpacked"
  cmake_arguments+=("-DBoost_ROOT=$unpacked" -DBoost_NO_SYSTEM_PATHS=ON)
}

boost_is_recent() {
  preprocesses '#include <boost/version.hpp>
#if BOOST_VERSION < 108100
#error old
#endif'
}

boost_package() {
  local version
  for version in 1.83 1.81; do
    if apt_has "libboost$version-dev"; then
      echo "libboost$version-dev"
      return
    fi
  done
  return 1
}

# Debian's Boost packages conflict with each other, so where another one is installed ours is laid
# beside it, in the build tree. Works without root.
unpack_boost() {
  [[ -z ${VMART_NO_INSTALL:-} ]] || return 1
  local package
  package=$(boost_package) || return 1
  say "unpacking $package into ${deps#"$root"/}/boost (another Boost is installed)"
  rm -rf "$deps/boost.new"
  mkdir -p "$deps/boost.new"
  (cd "$deps/boost.new" && apt-get download -qq "$package" >"$deps/apt.log" 2>&1 &&
    dpkg -x ./*.deb . && rm ./*.deb) || return 1
  rm -rf "$deps/boost"
  mv "$deps/boost.new" "$deps/boost"
}

# --- cuda.h >= 12.5

set_up_cuda_header() {
  local folder
  if [[ -z ${VMART_FORCE_CUDA_WHEEL:-} ]]; then
    for folder in "${VMART_CUDA_INCLUDE_DIR:-}" "${CUDA_HOME:-}/include" "${CUDA_PATH:-}/include" \
      /usr/local/cuda/include /usr/local/cuda-*/include /usr/local/include /usr/include; do
      if has_cuda_header "$folder"; then
        cmake_arguments+=("-DVMART_CUDA_INCLUDE_DIR=$folder")
        return
      fi
    done
  fi
  folder=$deps/cuda/nvidia/cu13/include
  has_cuda_header "$folder" || fetch_wheels "$root/.ci/cuda-header.txt" "$deps/cuda" cuda.h ||
    { missing+=("cuda.h 12.5 or newer (a CUDA toolkit)"); return; }
  say "cuda.h: $folder"
  cmake_arguments+=("-DVMART_CUDA_INCLUDE_DIR=$folder")
}

has_cuda_header() {
  [[ -f $1/cudaTypedefs.h && -f $1/cuda.h ]] || return 1
  local version
  version=$(sed -n 's/^#define CUDA_VERSION  *\([0-9]*\).*/\1/p' "$1/cuda.h" | head -n 1)
  ((${version:-0} >= 12050))
}

# fetch_wheels LIST FOLDER WHAT: unpacks the wheels of the list there. pip checks the hashes that it pins.
fetch_wheels() {
  local list=$1 folder=$2 what=$3 python=python3 wheel
  [[ -z ${VMART_NO_INSTALL:-} ]] || return 1
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    python=/usr/bin/python3  # Where apt puts pip; another Python may stand first in PATH.
    "$python" -m pip --version >/dev/null 2>&1 || install_packages python3 python3-pip || return 1
  fi
  say "fetching $what from PyPI: $(sed -n 's/ \\$//; /==/p' "$list" | paste -s -d ' ')"
  rm -rf "$folder.new"
  "$python" -m pip download -q --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -r "$list" -d "$folder.new" || return 1
  for wheel in "$folder.new"/*.whl; do
    "$python" -m zipfile -e "$wheel" "$folder.new" || return 1
    rm "$wheel"
  done
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

# What drivers newer than the toolkit have. Each version has a folder of its own, as pip takes one at a time.
set_up_driver_headers() {
  local folder=$deps/driver_headers version
  while read -r version; do
    [[ -f $folder/$version/nvidia/cu13/include/cuda.h ]] && continue
    mkdir -p "$folder"
    sed -n "/==$version /,/[^\\]\$/p" "$root/.ci/driver-headers.txt" >"$folder/list.txt"
    fetch_wheels "$folder/list.txt" "$folder/$version" "cuda.h $version" && continue
    say "driver-headers.txt (PyPI) is missing: the calls of drivers are compared with the headers there are"
    break
  done < <(sed -n 's/^nvidia-cuda-runtime==\([0-9.]*\) .*/\1/p' "$root/.ci/driver-headers.txt")
  cmake_arguments+=("-DVMART_DRIVER_HEADERS=$folder")
}

# The CMake of Ubuntu 22.04, for what an installed vmart does there.
set_up_old_cmake() {
  local program=$deps/old_cmake/cmake/data/bin/cmake
  if [[ ! -f $program ]]; then
    fetch_wheels "$root/.ci/old-cmake.txt" "$deps/old_cmake" "CMake 3.22" || {
      say "old-cmake.txt (PyPI) is missing: the installed package is not tried with CMake 3.22"
      return 0
    }
    chmod +x "$program"
  fi
  cmake_arguments+=("-DVMART_OLD_CMAKE=$program")
}

# --- CCCL >= 3.5, for the tests of the memory resource

set_up_cccl() {
  local folder
  for folder in "${VMART_CCCL_INCLUDE_DIR:-}" "${CUDA_HOME:-}/include/cccl" \
    "${CUDA_PATH:-}/include/cccl" /usr/local/cuda/include/cccl; do
    if has_cccl "$folder"; then
      cmake_arguments+=("-DVMART_CCCL_INCLUDE_DIR=$folder")
      return
    fi
  done
  folder=$deps/cccl/nvidia/cu13/include/cccl
  if ! has_cccl "$folder" && ! fetch_wheels "$root/.ci/cccl-headers.txt" "$deps/cccl" CCCL; then
    say "CCCL 3.5 (PyPI) is missing: the memory resource is not tested"  # Its tests say SKIPPED.
    return 0
  fi
  say "CCCL: $folder"
  cmake_arguments+=("-DVMART_CCCL_INCLUDE_DIR=$folder")
}

has_cccl() {
  [[ -f $1/cuda/memory_resource && -f $1/../cuda_runtime_api.h && -f $1/../crt/host_defines.h ]] ||
    return 1
  local version
  version=$(sed -n 's/^#define CCCL_VERSION  *\([0-9]*\).*/\1/p' "$1/cuda/std/__cccl/version.h")
  ((${version:-0} >= 3005000))
}
