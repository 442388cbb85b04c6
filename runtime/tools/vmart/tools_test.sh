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
expect 2 "which command?" # None.
expect 2 'unknown command "heal"' heal
expect 2 'unknown command "statu"; did you mean status?' statu
expect 2 "did you mean --version?" --verison
expect 2 "did you mean --version?" -v
expect 0 "vmart 0." version
expect 0 "vmart 0." -V
expect 0 "Usage: vmart [OPTIONS] COMMAND" help
expect 0 "Usage: vmart migrate [OPTIONS] WHAT... PLACE" help migrate
expect 2 "--json belongs behind the command, as in vmart" --json status
expect 2 "did you mean --follow?" events --folow
expect 2 'unexpected argument "now"' status now
expect 2 "WHAT and PLACE are missing" migrate
expect 2 "PLACE is missing" migrate weights
expect 2 "Example: vmart migrate largest:4 gpu1" migrate
expect 2 "Usage: vmart capacity [OPTIONS] PLACE SIZE" capacity gpu0
expect 2 "SIZE is missing" capacity gpu0
expect 2 "20 has no unit; did you mean 20GiB or 20MiB?" capacity gpu0 20
expect 2 "expected a size such as 20GiB, or none" capacity gpu0 much
expect 2 '"gpu0" is no process id' yield gpu0 1GiB 1
expect 2 "no process id" status --pid many
expect 2 '--mib is "many"; expected a number from 8 to 65536' demo --mib many
expect 2 '--mib is "7"; expected a number from 8 to 65536' demo --mib 7
expect 2 '--sort is "foo"; expected place, used, share, demand' top --sort foo
expect 2 "--driver has no value" demo --driver
expect 2 '--way is "foo"; expected preload, shim' run --way foo -- true
expect 2 "Example: vmart run --policy auto -- python3 train.py" run
expect 2 "did you mean --policy?" run --polcy auto -- true
expect 1 "a size for gpu0, such as gpu0=60GiB" run --capacity gpu0 -- true
expect 1 "a place such as gpu0 or host0 instead of" run --capacity disk0=4GiB -- true
expect 2 "--mib" demo --mib many
expect 2 "--mib" where --mib 64 # That of a program, and of nothing else.
expect 2 "--copy-mib" doctor --copy-mib -1

expect 0 "simulated h200x2" doctor --driver sim:h200x2 --copy-mib 8
expect 0 "copies run in contexts of the program" doctor --driver sim:h200x2 --copy-mib 8
export VMART_OWN_CONTEXTS=1
expect 0 "copies run in contexts of the runtime's own" doctor --driver sim:h200x2 --copy-mib 8
unset VMART_OWN_CONTEXTS
expect 0 "nvlink" doctor --driver sim:h200x2 --copy-mib 0
expect 0 "host0" doctor --driver sim:h200x1 --copy-mib 0
unset VMART_STOP
expect 0 "gpu1           usable: 920 us off the GPU, 450 us on again" doctor --driver sim:h200x2 --copy-mib 0
export VMART_STOP=gate
expect 0 "gpu1           off: VMART_STOP is gate" doctor --driver sim:h200x2 --copy-mib 0
unset VMART_STOP
expect 0 "support         does not apply: this machine is simulated" doctor --driver sim:gh200 --copy-mib 0
expect 0 "\"support\": {\"class\": \"simulated\"}" doctor --driver sim:gh200 --copy-mib 0 --json
expect 0 "context hold    available" doctor --driver sim:gh200 --copy-mib 0
expect 0 "atomics of gpu1 on host memory" doctor --driver sim:h200x2 --copy-mib 0
expect 0 "off             nothing" doctor --driver sim:gh200 --copy-mib 0
expect 0 "cannot use memory at gpu" doctor --driver sim:test-islands --copy-mib 0
expect 0 "middle moved to gpu1" demo --driver sim:h200x2 --mib 16
expect 0 "middle moved to host0" demo --driver sim:h200x1 --mib 16
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
  expect 1 "there is no process 99999999" $command --pid 99999999
  # shellcheck disable=SC2086
  expect 1 "does not listen; start it by" $command --pid $$
  # shellcheck disable=SC2086
  expect 1 "$empty/none.sock does not exist" $command --socket "$empty/none.sock"
  # Nothing is invented, and nothing said twice.
  case $printed in *demo* | *vmart:*vmart:*) failures=$((failures + 1)) ;; esac
done
expect 1 "VMART_CONTROL=1" where
expect 1 "is not a socket" status --socket "$0"
expect 1 "there is no process 99999999" yield 99999999 gpu0 1GiB
expect 2 "mars" yield 99999999 mars 1GiB
expect 2 "SIZE is missing" yield 99999999 gpu0
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
expect 1 "no-such-machine" doctor --driver sim:no-such-machine
expect 1 "vulkan" demo --driver vulkan
export CUDA_VISIBLE_DEVICES=-1
expect 1 "no_driver" doctor --driver cuda
expect 1 "these simulated machines are built in" doctor --driver cuda
expect 1 "no_driver" demo
unset CUDA_VISIBLE_DEVICES

# Completion and the manual: what shells and man read.
for shell in bash zsh fish; do
  "$vmart" completion "$shell" > "$VMART_CACHE_DIR/completion.$shell" || failures=$((failures + 1))
  grep -q migrate "$VMART_CACHE_DIR/completion.$shell" || failures=$((failures + 1))
  command -v "$shell" > "$VMART_CACHE_DIR/found.txt" || continue
  "$shell" -n "$VMART_CACHE_DIR/completion.$shell" || failures=$((failures + 1))
done
expect 2 "expected bash, zsh, fish" completion csh
if command -v bash > "$VMART_CACHE_DIR/found.txt"; then
  # completed WORD ...: a word that bash offers for a line that ends with the last argument.
  completed() {
    wanted=$1
    shift
    bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _vmart; echo " ${COMPREPLY[*]} "' \
      bash "$VMART_CACHE_DIR/completion.bash" "$@" > "$VMART_CACHE_DIR/offered.txt"
    grep -qF -- " $wanted " "$VMART_CACHE_DIR/offered.txt" || {
      echo "completion of \"$*\" does not offer $wanted:"
      cat "$VMART_CACHE_DIR/offered.txt"
      failures=$((failures + 1))
    }
  }
  completed migrate vmart mi
  completed --dry-run vmart migrate --d
  completed gpu1 vmart migrate all gp
  completed shim vmart run --way s
fi
"$vmart" man > "$VMART_CACHE_DIR/vmart.1" || failures=$((failures + 1))
if command -v man > "$VMART_CACHE_DIR/found.txt" && command -v groff > "$VMART_CACHE_DIR/found.txt"; then
  MANWIDTH=80 man --warnings -l "$VMART_CACHE_DIR/vmart.1" > "$VMART_CACHE_DIR/page.txt" \
    2> "$VMART_CACHE_DIR/warnings.txt" || failures=$((failures + 1))
  grep -q "vmart migrate \[OPTIONS\] WHAT... PLACE" "$VMART_CACHE_DIR/page.txt" || failures=$((failures + 1))
  [ ! -s "$VMART_CACHE_DIR/warnings.txt" ] || {
    cat "$VMART_CACHE_DIR/warnings.txt"
    failures=$((failures + 1))
  }
fi

# No line of help is wider than a terminal.
for command in "" doctor demo run status where explain events stats top migrate drain capacity yield \
  park unpark policy pause resume step calibrate; do
  # shellcheck disable=SC2086 # None for the first.
  wide=$("$vmart" $command --help | awk 'length($0) > 80')
  [ -z "$wide" ] || {
    echo "vmart $command --help is wider than 80 columns: $wide"
    failures=$((failures + 1))
  }
done

[ "$failures" -eq 0 ]
