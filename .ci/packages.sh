#!/usr/bin/env bash
# Builds packages into build/packages: .deb for the Debian or Ubuntu that this machine has, by its own compiler, and a
# tarball for any x86_64 Linux with glibc 2.31 or newer, as .ci/wheels.sh builds wheels.
#
#   .ci/packages.sh [deb] [tarball]
#
# Without a word, both. Beside each is what it contains (SPDX), and SHA256SUMS has their sums.
set -euo pipefail
# shellcheck source=.ci/wheels.sh
. "$(dirname "${BASH_SOURCE[0]}")/wheels.sh"

results=$root/build/packages
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DVMART_BATCHES=ON -DVMART_BUILD_TESTS=OFF -DVMART_BUILD_BENCH=OFF
  -DVMART_BUILD_EXAMPLES=OFF)

build_debs() {
  local build=$root/build/packages.deb made name
  install_demo_packages
  need_header CLI/CLI.hpp libcli11-dev
  need_header zlib.h zlib1g-dev
  need_command dpkg-shlibdeps dpkg-dev
  need_command file file
  set_up_boost
  set_up_cuda_header
  stop_if_missing
  say "building .deb"
  cmake -S "$root" -B "$build" "${options[@]}" -DCMAKE_INSTALL_PREFIX=/usr "${cmake_arguments[@]}"
  cmake --build "$build" -j "$jobs"
  (cd "$build" && cpack -G DEB -B "$build/made")
  for made in "$build"/made/*.deb; do  # Earlier versions go, those of another distribution stay.
    name=${made##*/}
    rm -f "$results/${name%%_*}_"*"~${name##*~}"*
    mv "$made" "$results"
  done
}

# In the folder of the wheels, so that ccache has what they have compiled.
build_tarball() {
  local work=$root/build/wheels.work
  set_up_wheels
  lay_source "$work"
  write_toolchain "$work"
  say "building the tarball"
  cmake -S "$work/source" -B "$work/build" "${options[@]}" -DCMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" \
    -DCMAKE_INSTALL_LIBDIR=lib
  CCACHE_BASEDIR='' cmake --build "$work/build" -j "$jobs"
  (cd "$work/build" && cpack -G TGZ -B "$work/made")
  rm -f "$results"/*.tar.gz "$results"/*.tar.gz.*
  mv "$work"/made/*.tar.gz "$results"
}

main() {
  local kind
  jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  (($# > 0)) || set -- deb tarball
  mkdir -p "$deps" "$cache" "$results"
  umask 022
  for kind in "$@"; do
    case $kind in
      deb) build_debs ;;
      tarball) build_tarball ;;
      *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
  done
  list_contents "$results"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
