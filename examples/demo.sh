#!/usr/bin/env bash
# Installs what is missing, builds, and shows memory moving under one pointer: on this machine's
# GPUs, or where there is none on a simulated machine. VMART_DRIVER chooses otherwise.
# Arguments go to the demo.
set -euo pipefail
# shellcheck source=.ci/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/setup.sh"

choose_driver() {
  [[ -n ${VMART_DRIVER:-} ]] && return
  if compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
    export VMART_DRIVER=cuda
  else
    export VMART_DRIVER=sim:h200x2
    say "no GPU here: a simulated machine, $VMART_DRIVER"
  fi
}

main() {
  set_up demo
  cd "$root"
  say "building (build/demo)"
  cmake --preset release -B build/demo -DCMAKE_CXX_COMPILER=g++ "${cmake_arguments[@]}" \
    -DVMART_BUILD_TESTS=OFF -DVMART_BUILD_BENCH=OFF >"$deps/configure.log" 2>&1 ||
    { cat "$deps/configure.log"; exit 1; }
  cmake --build build/demo
  choose_driver
  exec build/demo/examples/migrate_once "$@"
}

main "$@"
