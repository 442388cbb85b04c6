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
  choose_driver
  set_up demo
  cd "$root"
  # Only what runs, compiled quickly: the library in batches, and one example.
  say "building (build/demo)"
  cmake --preset install -B build/demo -DCMAKE_CXX_COMPILER=g++ "${cmake_arguments[@]}" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O0 -DNDEBUG" \
    -DVMART_BUILD_EXAMPLES=ON -DVMART_BUILD_TOOLS=OFF >"$deps/configure.log" 2>&1 ||
    { cat "$deps/configure.log"; exit 1; }
  cmake --build build/demo --target migrate_once
  build/demo/examples/migrate_once "$@"
  say_what_next
}

say_what_next() {
  local driver=${VMART_DRIVER:+VMART_DRIVER=$VMART_DRIVER }
  cat <<END

Next:
  cmake --build build/demo --target live_move && ${driver}build/demo/examples/live_move
      the same while kernels run on the memory
  VMART_DRIVER=sim:gh200 build/demo/examples/migrate_once
      another simulated machine: GPU and host memory of a Grace Hopper
  cmake --build build/demo --target oversubscribe && ${driver}build/demo/examples/oversubscribe
      more memory than a GPU holds
docs/tutorial/first_move.md does it in a program of your own.
END
}

main "$@"
