#!/usr/bin/env bash
# Installs what is missing, builds, and runs all the tests. tests/README.md says what the stages are.
#
#   tests/run.sh           what CI runs
#   tests/run.sh --long    full sweeps and random tests, clang-tidy, mutants; adds its line to
#                          docs/results/test_runs.md. Takes hours.
#   tests/run.sh --quick   the release stages alone, compiled source by source
set -euo pipefail
# shellcheck source=.ci/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../.ci/setup.sh"

jobs=2
stage_names=() stage_seconds=() failed=() failed_logs=()
long='' quick=''

read_arguments() {
  local argument
  for argument in "$@"; do
    case $argument in
      --long) long=1 ;;
      --quick) quick=1 ;;
      *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
  done
}

# Random tests take their seed from the commit, so that a red run can be played again.
choose_seed() {
  local head
  head=$(git rev-parse --short=8 HEAD 2>/dev/null) || head=1
  export VMART_SEED=${VMART_SEED:-$((16#${head:0:8}))}
  say "VMART_SEED=$VMART_SEED"
  if [[ -n $long ]]; then export VMART_LONG=1; fi
}

# stage NAME command...: a failure is kept for the end, so that one run shows all that is broken.
stage() {
  local name=$1 begin=$SECONDS log=build/stages/${1//[^a-z]/_}.log
  shift
  say "=== $name"
  mkdir -p build/stages
  # Not in a condition: bash would ignore `set -e` inside.
  set +e
  (set -e; "$@") 2>&1 | tee "$log"
  local result=${PIPESTATUS[0]}
  set -e
  if ((result != 0)); then
    failed+=("$name") failed_logs+=("$log")
    say "=== $name FAILED"
  fi
  stage_names+=("$name") stage_seconds+=($((SECONDS - begin)))
}

build() {
  local preset=$1
  shift
  cmake --preset "$preset" "${cmake_arguments[@]}" -DVMART_BUILD_TESTS=ON \
    -DVMART_WARNINGS_AS_ERRORS=ON -DVMART_LONG_TESTS="${long:-0}" "$@" >"$deps/configure.log" 2>&1 ||
    { cat "$deps/configure.log"; return 1; }
  cmake --build --preset "$preset" -j "$jobs"
}

# In batches, which takes half of the time from nothing. --quick and --long compile one source at a time, which
# is quicker after a change.
build_release() {
  if [[ -n $long || -n $quick ]]; then
    build release -DCMAKE_CXX_COMPILER=g++ -DVMART_BUILD_EXAMPLES=ON -DVMART_BATCHES=OFF
    return
  fi
  # Compiled as the preset `install` does, so that ccache has it for the commands of the documentation: by the
  # compiler's usual name, and with warnings looked for afterwards. A cached result has its warnings, too.
  local log=build/stages/compiled.log compiler=g++
  if [[ $(realpath "$(command -v c++)") == "$(realpath "$(command -v g++)")" ]]; then compiler=c++; fi
  if has_warnings "$log"; then rm -rf build/release; fi  # So that they are shown again.
  build release -DCMAKE_CXX_COMPILER=$compiler -DVMART_BUILD_EXAMPLES=ON -DVMART_BATCHES=ON \
    -DVMART_WARNINGS_AS_ERRORS=OFF 2>&1 | tee "$log"
  if has_warnings "$log"; then
    say "warnings are errors: they are in $log"
    return 1
  fi
}

has_warnings() { [[ -f $1 ]] && grep -aqE ':[0-9]+:[0-9]+: warning: ' "$1"; }

# Benchmarks, examples and tools are not built here: their code is the caller's side of the library.
test_sanitized() {
  build "$1" -DCMAKE_CXX_COMPILER="clang++-$clang_version" -DVMART_BUILD_BENCH=OFF \
    -DVMART_BUILD_EXAMPLES=OFF -DVMART_BUILD_TOOLS=OFF -DVMART_BUILD_PYTHON=OFF
  ctest --preset "$1" -j "$jobs"
}

# Beside two busy loops, so that no example counts on an idle machine.
test_examples_often() {
  local busy=() i result=0
  for i in 1 2; do
    (while :; do :; done) &
    busy+=($!)
  done
  ctest --preset release -L example -j "$jobs" --repeat until-fail:100 || result=$?
  kill "${busy[@]}"
  return "$result"
}

run_clang_tidy() {
  local tool=clang-tidy-$clang_version
  command -v "$tool" >/dev/null || { say "$tool is missing: left out"; return 0; }
  # The tools are not part of the sanitizer builds, whose compile commands these are.
  find runtime -name '*.cpp' -not -path 'runtime/tools/*' -print0 |
    xargs -0 -P "$jobs" -n 4 "$tool" --quiet -p build/asan
}

print_minutes() {
  local i
  say "minutes per stage"
  for i in "${!stage_names[@]}"; do
    printf '  %-28s %4d:%02d\n' "${stage_names[i]}" \
      $((stage_seconds[i] / 60)) $((stage_seconds[i] % 60))
  done
}

# What failed, once more and last: the compiler's errors and ctest's own list are far above.
print_failures() {
  local preset logs log
  say "FAILED: ${failed[*]}"
  for log in "${failed_logs[@]}"; do
    say "errors in $log, and its last line:"
    grep -aE -A 5 '^FAILED: |error: |warning: |undefined reference|Killed|^make: \*\*\*|No space left' "$log" |
      cut -c -400 | head -n 60 || true
    tail -n 1 "$log" | cut -c -400
  done
  for preset in asan tsan release; do
    logs=build/$preset/Testing/Temporary
    [[ -s $logs/LastTestsFailed.log ]] || continue
    say "failed in $preset, and the last lines that each printed:"
    cat "$logs/LastTestsFailed.log"
    awk '/^[0-9]+\/[0-9]+ Test: / { name = $0; begin = NR }
         { line[NR % 25] = $0 }
         /^Test time = / { last = NR }
         /^Test / && !/^Test (Pass|time)/ && NR <= last + 2 {
           print "--- " name
           for (i = last - 22; i < last; ++i) if (i > begin) print line[i % 25]
         }' "$logs/LastTest.log"
  done
}

main() {
  read_arguments "$@"
  stage_names+=(set-up)
  if [[ -n $long ]]; then set_up long; else set_up tests; fi
  stage_seconds+=("$SECONDS")
  cd "$root"
  choose_seed
  rm -f build/*/Testing/Temporary/LastTestsFailed.log
  stage "release build" build_release
  if [[ -n $clang_version && -z $quick ]]; then
    stage "asan and ubsan tests" test_sanitized asan
    stage "tsan tests" test_sanitized tsan
    if [[ -n $long ]]; then stage clang-tidy run_clang_tidy; fi
  fi
  if [[ -n $long ]]; then stage "mutants" "$python" tests/mutation/mutate.py --jobs "$jobs"; fi
  if [[ -z $quick ]]; then stage "documentation site" docs/build_site.sh; fi
  if [[ -n $long ]]; then stage "each example a hundred times" test_examples_often; fi
  # The last stage, so that ctest's count is the last thing that a green run prints.
  print_minutes
  ((${#failed[@]} == 0)) || say "FAILED before the release tests: ${failed[*]}"
  stage "release tests, tidy, install, examples, benches" ctest --preset release -j "$jobs"
  if [[ -n $long && ${#failed[@]} == 0 ]]; then
    python3 tests/record_long_run.py "$SECONDS"
  fi
  if ((${#failed[@]} != 0)); then
    print_failures
    return 1
  fi
}

main "$@"
