#!/bin/sh
# The command line on simulated machines: what it prints and how it exits. tools_test.sh VMART
set -u
vmart=$1
failures=0

# expect CODE TEXT ARGUMENTS...: the exit status, and a word that is printed somewhere.
expect() {
  code=$1 text=$2
  shift 2
  printed=$("$vmart" "$@" 2>&1)
  got=$?
  if [ "$got" -ne "$code" ] || ! printf '%s' "$printed" | grep -qF -- "$text"; then
    echo "vmart $*: exit $got, wanted $code and \"$text\"; it printed:"
    printf '%s\n' "$printed"
    failures=$((failures + 1))
  fi
}

unset VMART_DRIVER VMART_DEVICES VMART_CAPACITY
expect 0 "vmart 0." --version
expect 0 "doctor" --help
expect 2 "subcommand" # None.
expect 2 "subcommand" heal
expect 2 "--mib" demo --mib many
expect 2 "--mib" where --mib 64 # That of a program, and of nothing else.
expect 2 "--copy-mib" doctor --copy-mib -1

expect 0 "simulated h200x2" doctor --driver sim:h200x2 --copy-mib 8
expect 0 "copies run in contexts of the program" doctor --driver sim:h200x2 --copy-mib 8
export VMART_OWN_CONTEXTS=1
expect 0 "copies run in contexts of the runtime's own" doctor --driver sim:h200x2 --copy-mib 8
unset VMART_OWN_CONTEXTS
expect 0 "nvlink" doctor --driver sim:h200x2 --copy-mib 0
expect 0 "host(0)" doctor --driver sim:h200x1 --copy-mib 0
expect 0 "context hold    available" doctor --driver sim:gh200 --copy-mib 0
expect 0 "atomics of gpu(1) on host memory" doctor --driver sim:h200x2 --copy-mib 0
expect 0 "off             nothing" doctor --driver sim:gh200 --copy-mib 0
expect 0 "cannot use memory at gpu(" doctor --driver sim:test-islands --copy-mib 0
expect 0 "middle moved to gpu(1)" demo --driver sim:h200x2 --mib 16
expect 0 "middle moved to host(0)" demo --driver sim:h200x1 --mib 16
expect 0 "margin=1.25" policy cost_benefit
expect 0 "number, 1 to " policy cost_benefit
expect 1 "did you mean cost_benefit?" policy cost_benefti
expect 1 "known are" policy magic
expect 2 "vmart policy --set cost_benefit:margin=2" policy cost_benefit:margin=2

# JSON is JSON.
is_json() {
  "$vmart" "$@" > "$VMART_CACHE_DIR/printed.txt" && [ "$(wc -l < "$VMART_CACHE_DIR/printed.txt")" -eq 1 ] ||
    failures=$((failures + 1))
  ! command -v python3 > "$VMART_CACHE_DIR/found.txt" ||
    python3 -m json.tool "$VMART_CACHE_DIR/printed.txt" > "$VMART_CACHE_DIR/parsed.txt" ||
    failures=$((failures + 1))
}

VMART_CACHE_DIR=$(mktemp -d)
export VMART_CACHE_DIR
trap 'chmod -R u+w "$VMART_CACHE_DIR"; rm -rf "$VMART_CACHE_DIR"' EXIT
is_json demo --driver sim:h200x2 --mib 16 --json
is_json doctor --driver sim:h200x2 --copy-mib 4 --json
is_json policy cost_benefit --json
expect 1 "no calibration of this machine" calibrate --driver sim:test-2 --show
expect 0 "copy GB/s" calibrate --driver sim:test-2 --no-keep
expect 0 "stall 64 MiB" calibrate --driver sim:test-2 --no-keep --stops
expect 1 "no calibration of this machine" calibrate --driver sim:test-2 --show
expect 0 "$VMART_CACHE_DIR/calibration-" calibrate --driver sim:test-2
expect 0 "read GB/s" calibrate --driver sim:test-2 --show
expect 0 "vmart calibration" calibrate --driver sim:test-2 --show --json
expect 1 "no calibration of this machine" calibrate --driver sim:test-4 --show # Another machine.
expect 2 "--mib" calibrate --mib -1
for file in "$VMART_CACHE_DIR"/*.json; do echo "{" > "$file"; done
expect 1 "ignored a calibration" calibrate --driver sim:test-2 --show
expect 0 "copy GB/s" calibrate --driver sim:test-2
expect 0 "read GB/s" calibrate --driver sim:test-2 --show
# Nothing to ask: no program listens in a folder of our own.
empty=$(mktemp -d)
XDG_RUNTIME_DIR=$empty
export XDG_RUNTIME_DIR
for command in status "where 0x10" "explain 0x10" stats "stats --json" pause resume step policy \
  events top "drain gpu0" "capacity gpu0 1GiB" "migrate 0x10 gpu1" where "where weights" "explain weights" "policy --set x" \
  "top --json"; do
  # shellcheck disable=SC2086 # A command and its arguments.
  expect 1 "no runtime is listening" $command --pid 99999999
  # shellcheck disable=SC2086
  expect 1 "No such file" $command --socket "$empty/none.sock"
  # Nothing is invented, and nothing said twice.
  case $printed in *demo* | *vmart:*vmart:*) failures=$((failures + 1)) ;; esac
done
expect 1 "VMART_CONTROL=1" where
expect 2 "At least 2" migrate 0x10
expect 1 "no runtime is listening" yield 99999999 gpu0 1GiB
expect 1 "mars" yield 99999999 mars 1GiB
expect 2 "size is required" yield 99999999 gpu0
expect 2 "--interval" top --interval 0
expect 2 "--sort" top --sort colour
rmdir "$empty"

# What is wrong is said in plain words, with the sections that do not depend on it.
sick() {
  variable=$1
  value=$2
  shift 2
  export "$variable=$value"
  expect 1 "correct or unset $variable, which is \"$value\"" doctor --driver sim:h200x2 --copy-mib 8 "$@"
  for section in "simulated h200x2" "nvlink" "GB/s from, to" "MiB of HBM" "off "; do
    expect 1 "$section" doctor --driver sim:h200x2 --copy-mib 8 "$@"
  done
  unset "$variable"
}
sick VMART_POLICY nonsense
sick VMART_CALIBRATION "$VMART_CACHE_DIR/none.json"
sick VMART_CAPACITY gpu7=4GiB
sick VMART_CAPACITY rubbish
sick VMART_DEVICES 7
sick VMART_DEVICES x
export VMART_POLICY=nonsense
sick VMART_CAPACITY gpu7=4GiB
expect 1 "correct or unset VMART_POLICY" doctor --driver sim:h200x2 --copy-mib 0
unset VMART_POLICY
export VMART_CAPACITY=gpu0=16MiB
expect 1 "no copy was timed: " doctor --driver sim:h200x2
expect 1 "MiB of HBM" doctor --driver sim:h200x2
unset VMART_CAPACITY
expect 0 "one copy of 1 MiB" doctor --driver sim:test-4 --copy-mib 1
expect 0 "one copy of 15 MiB" doctor --driver sim:test-4

# What cannot work at all says so in one line, with its kind.
expect 1 "invalid_argument" doctor --driver sim:no-such-machine
expect 1 "invalid_argument" demo --driver vulkan
export CUDA_VISIBLE_DEVICES=-1
expect 1 "no_driver" doctor --driver cuda
expect 1 "no_driver" demo
unset CUDA_VISIBLE_DEVICES

[ "$failures" -eq 0 ]
