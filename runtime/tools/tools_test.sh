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
expect 2 "--mib" where --mib many
expect 2 "--copy-mib" doctor --copy-mib -1

expect 0 "simulated h200x2" doctor --driver sim:h200x2 --copy-mib 8
expect 0 "nvlink" doctor --driver sim:h200x2 --copy-mib 0
expect 0 "host(0)" doctor --driver sim:h200x1 --copy-mib 0
expect 0 "context hold    available" doctor --driver sim:gh200 --copy-mib 0
expect 0 "cannot use memory at gpu(" doctor --driver sim:test-islands --copy-mib 0
expect 0 "middle moved to gpu(1)" where --driver sim:h200x2 --mib 16
expect 0 "middle moved to host(0)" where --driver sim:h200x1 --mib 16

VMART_CACHE_DIR=$(mktemp -d)
export VMART_CACHE_DIR
trap 'chmod -R u+w "$VMART_CACHE_DIR"; rm -rf "$VMART_CACHE_DIR"' EXIT
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
expect 1 "is not used" calibrate --driver sim:test-2 --show
expect 0 "copy GB/s" calibrate --driver sim:test-2
expect 0 "read GB/s" calibrate --driver sim:test-2 --show
# Nothing to ask: no program listens in a folder of our own.
empty=$(mktemp -d)
XDG_RUNTIME_DIR=$empty
export XDG_RUNTIME_DIR
for command in status "where 0x10" "explain 0x10" stats "stats --json" pause resume step policy \
  events top "drain gpu0" "migrate 0x10 gpu1"; do
  # shellcheck disable=SC2086 # A command and its arguments.
  expect 1 "no runtime listens" $command --pid 99999999
  # shellcheck disable=SC2086
  expect 1 "No such file" $command --socket "$empty/none.sock"
done
expect 2 "to" migrate 0x10
expect 2 "--interval" top --interval 0
rmdir "$empty"

# What cannot work says so in one line, with its kind.
expect 1 "invalid_argument" doctor --driver sim:no-such-machine
expect 1 "invalid_argument" where --driver vulkan
export CUDA_VISIBLE_DEVICES=-1
expect 1 "no_driver" doctor --driver cuda
expect 1 "no_driver" where
unset CUDA_VISIBLE_DEVICES
export VMART_DEVICES=7
expect 1 "GPU 7" doctor --driver sim:h200x2
VMART_DEVICES=x
expect 1 "VMART_DEVICES" doctor --driver sim:h200x2

[ "$failures" -eq 0 ]
