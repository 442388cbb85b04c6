#!/bin/sh
# The lab's command line: what it prints and how it exits.
# lab_tools_test.sh VMART_LAB EXPERIMENT POLICY_LIBRARY
set -u
lab=$1
failures=0

# expect CODE TEXT ARGUMENTS...: the exit status, and a word that is printed somewhere.
expect() {
  code=$1 text=$2
  shift 2
  printed=$("$lab" "$@" 2>&1)
  got=$?
  if [ "$got" -ne "$code" ] || ! printf '%s' "$printed" | grep -qF -- "$text"; then
    echo "vmart-lab $*: exit $got, wanted $code and \"$text\"; it printed:"
    printf '%s\n' "$printed"
    failures=$((failures + 1))
  fi
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
expect 0 "vmart-lab 0." --version
expect 2 "which command?" # None.
expect 0 "keep_s: 300" convert --help
expect 0 "phase-change: working sets" generate --help
expect 2 "OUT is missing" convert mooncake in
expect 1 "\"cake\" is not a format" convert cake in "$folder/a.vtrace"
expect 1 "No such file" convert mooncake "$folder/none" "$folder/a.vtrace"
expect 1 "\"x\" is not a parameter" generate serving "$folder/a.vtrace" --param x=1
expect 1 "must end in .jsonl or .vtrace" generate serving "$folder/a.csv"

expect 0 "2 mark" generate phase-change "$folder/a.vtrace" --param phases=2 --param phase_s=0.1
expect 0 "made: vmart-lab generate phase-change seed=1" trace "$folder/a.vtrace"
expect 0 "2 mark" convert trace "$folder/a.vtrace" "$folder/a.jsonl"
expect 0 "2 mark" convert trace "$folder/a.jsonl" "$folder/b.vtrace"
cmp "$folder/a.vtrace" "$folder/b.vtrace" || failures=$((failures + 1))
expect 0 "2 mark" generate phase-change "$folder/c.vtrace" --seed 2 --param phases=2 \
  --param phase_s=0.1
cmp -s "$folder/a.vtrace" "$folder/c.vtrace" && failures=$((failures + 1))

expect 0 "at home they would take" replay "$folder/a.vtrace" --machine h200x2
expect 0 "share of accesses (of bytes) a device: " replay "$folder/a.vtrace" --machine h200x2
expect 0 "\"policy_failures\":0" replay "$folder/a.vtrace" --machine h200x2 --json
expect 0 "0 of 2 phases at rest" replay "$folder/a.vtrace" --machine h200x2
expect 0 "\"metrics\":{\"seconds\":" replay "$folder/a.vtrace" --machine h200x2 --json
expect 0 "gpu(1)" replay "$folder/a.vtrace" --machine h200x2 --hbm 2 --policy stay_put
expect 0 "gpu(1)" replay "$folder/a.vtrace" --machine h200x2 --hbm 2GiB --policy stay_put
for size in 0 many 4XiB; do
  expect 2 "is no size above 0; expected one such as 40GiB" replay "$folder/a.vtrace" --hbm "$size"
done
expect 1 "--stall-budget 2000 is out of range" replay "$folder/a.vtrace" --stall-budget 2000
expect 1 "none.json" replay "$folder/a.vtrace" --calibration "$folder/none.json"
expect 1 "is a calibration of gpu0 gpu1 gpu2 gpu3 host0" replay "$folder/a.vtrace" \
  --machine h200x2 --calibration "$(dirname "$0")/../../../docs/measurements/calibration_h200x4.json"
expect 0 "\"stall_budget_ms\":6" replay "$folder/a.vtrace" --json --stall-budget 60 \
  --machine h200x4 --calibration "$(dirname "$0")/../../../docs/measurements/calibration_h200x4.json"
calibrations=$(dirname "$0")/../../../docs/measurements
expect 0 "stall_s_per_byte[" calibrations "$calibrations/calibration_h200x4.json" \
  "$calibrations/calibration_h200x4.json" --out "$folder/median.json"
expect 0 "\"stall_budget_ms\":6" replay "$folder/a.vtrace" --json --stall-budget 60 \
  --machine h200x4 --calibration "$folder/median.json"
expect 1 "differ in the length of places" calibrations "$calibrations/calibration_h200x4.json" \
  "$calibrations/calibration_h200x2.json"
expect 1 "and no --pauses between accesses" check none.rec --timed --pauses
expect 1 "--stall-ahead -1 is out of range" replay "$folder/a.vtrace" --stall-ahead=-1
expect 0 "\"stall_ahead_ms\":0" replay "$folder/a.vtrace" --json --stall-ahead 0
expect 1 "there is no policy 'best'" replay "$folder/a.vtrace" --policy best
expect 0 "policy_failures\":0" replay "$folder/a.vtrace" --machine h200x2 --json --policy "follow@$3:uses=7"
expect 1 "it has no policy 'lead'; name one of follow as NAME@" replay "$folder/a.vtrace" --policy "lead@$3"
expect 1 "$folder/none.so: cannot open" replay "$folder/a.vtrace" --policy "$folder/none.so"
expect 1 "'nearest' is not a router" replay "$folder/a.vtrace" --router nearest
expect 1 "'fast' is not a pacing" replay "$folder/a.vtrace" --pacing fast
expect 2 "is no size above 0" replay "$folder/a.vtrace" --hbm=-1
expect 1 "--half-life 0 is out of range" replay "$folder/a.vtrace" --half-life 0
expect 1 "--chunk 1e-09 is out of range" replay "$folder/a.vtrace" --chunk 1e-9
expect 1 "h900" replay "$folder/a.vtrace" --machine h900

expect 0 "no policy costs less than" bounds "$folder/a.vtrace" --machine h200x2 --hbm 2
expect 0 "\"kind\":\"" bounds "$folder/a.vtrace" --machine h200x2 --json
expect 0 "no policy costs less than" bounds "$folder/a.vtrace" --machine h200x2 --on-time
expect 0 "no policy costs less than" bounds "$folder/a.vtrace" --machine h200x2 --hbm 2 --lp "$folder/a.lp"
[ "$(tail -n 1 "$folder/a.lp")" = End ] || failures=$((failures + 1))
expect 1 "$folder/none/a.lp: No such file" bounds "$folder/a.vtrace" --lp "$folder/none/a.lp"
expect 1 "'nearest' is not a router" bounds "$folder/a.vtrace" --router nearest
expect 2 "is no size above 0" bounds "$folder/a.vtrace" --hbm=-1

cat > "$folder/crowd.jsonl" << 'END'
{"event":"alloc","time_ns":0,"object":1,"bytes":4096}
{"event":"access","time_ns":0,"object":1,"bytes":4096}
{"event":"access","time_ns":1,"object":1,"bytes":4096}
END
expect 0 "crowd.jsonl: with router hash, 100.0 % of the accesses are on gpu(" \
  replay "$folder/crowd.jsonl" --router hash
expect 0 "share of accesses" replay "$folder/crowd.jsonl" --router round_robin
case $printed in *warning*) failures=$((failures + 1)) ;; esac
expect 0 "no policy costs less than" bounds "$folder/crowd.jsonl"

echo nothing >> "$folder/a.jsonl"
expect 1 "1 bad lines" trace "$folder/a.jsonl"
expect 1 "a.jsonl: line 3604: " trace "$folder/a.jsonl" --bad-lines 0
head -c 1000 "$folder/a.vtrace" > "$folder/cut.vtrace"
expect 1 "cut.vtrace: offset" trace "$folder/cut.vtrace"
echo '{"event":"free","time_ns":0,"object":7}' > "$folder/misfit.jsonl"
expect 1 "event 1: object 7 does not exist" trace "$folder/misfit.jsonl"
: > "$folder/empty.jsonl"
expect 1 "there are no events" trace "$folder/empty.jsonl"
expect 1 "the trace has no events" replay "$folder/empty.jsonl"
expect 1 "the trace has no events" bounds "$folder/empty.jsonl"
expect 1 "misfit.jsonl: bounds: invalid_argument: event 1" bounds "$folder/misfit.jsonl"
expect 1 "a.jsonl: line 3604: " replay "$folder/a.jsonl"
expect 0 "1 bad lines were skipped" replay "$folder/a.jsonl" --bad-lines 1
expect 1 "misfit.jsonl: Replay::run" replay "$folder/misfit.jsonl"

# Machines.
expect 2 "which command?" machine
expect 2 "FILE is missing" machine check
expect 0 "h200x2.json: ok" machine check h200x2 gb200-nvl72 test-islands
expect 1 "h900.json" machine check h900
expect 1 "$folder/none.json: cannot be read" machine check "$folder/none.json"
cat > "$folder/bad.json" << 'END'
{"name": "bad", "source": "a test", "sources": {"granularity_bytes": "guess: 4096", "gpu": "driver: d"},
 "granularity_bytes": 4096,
 "host_nodes": [{"memory_mib": 0}],
 "gpus": [], "host_link": {"to_gpu_gb_s": 5, "from_gpu_gb_s": 5}, "colour": "red", "costs": "h200x2"}
END
for problem in 'sources.granularity_bytes: is not "KIND: SOURCE"' \
  'sources.gpu: names a key that does not exist' 'host_nodes[0].memory_mib: 0 is not' \
  'host_nodes[0].memory_mib: has no source' 'colour: is not a known key of this object' \
  'host_link.to_gpu_gb_s: has no source'; do
  expect 1 "bad.json: $problem" machine check h200x2 "$folder/bad.json"
done
expect 1 "and 6 more: vmart-lab machine check" machine show "$folder/bad.json"
expect 0 "2 x NVIDIA H200" machine list
expect 0 "72 x NVIDIA GB200" machine list
expect 0 "made up 100 %" machine list
expect 0 "gpu(0) -> gpu(1)" machine show h200x2
expect 1 "h900.json" machine show h900
expect 2 "OUT is missing" machine probe
expect 1 "h900.json" machine probe "$folder/probed.json" --driver sim:h900
# What cannot be written is refused before anything is measured.
for output in "$folder/none/probed.json" "$folder"; do
  expect 1 "$output: " machine probe "$output" --driver sim:h200x2
  case $printed in *calibrating*) failures=$((failures + 1)) ;; esac
done
expect 0 "calibrating links" machine probe "$folder/probed.json" --driver sim:h200x2 --name mine
expect 0 "probed.json: ok" machine check "$folder/probed.json"
expect 0 "mine: What vmart-lab machine probe found: simulated h200x2" machine show "$folder/probed.json"
expect 0 "at home they would take" replay "$folder/a.vtrace" --machine "$folder/probed.json"
# Experiments. The example is short.
example=$2
small=$folder/small
expect 0 "h200x4~drift~cost_benefit~margin=1.25~prefix~s2" run "$example" --list
expect 2 "--out FOLDER is required" run "$example"
expect 0 "Usage: " run --help
expect 1 "has no cell \"none\"" run "$example" --out "$small" --only none
expect 0 "24 of 24 cells are finished" run "$example" --out "$small" --jobs 3 --no-report
expect 0 "24 of 24 cells were already finished" run "$example" --out "$small" --no-report
expect 0 "1 of 1 cells are finished" run "$example" --out "$folder/one" \
  --only "h200x4~phases~static~prefix~s1"
cmp "$small/cells/h200x4~phases~static~prefix~s1.json" \
  "$folder/one/cells/h200x4~phases~static~prefix~s1.json" || failures=$((failures + 1))
expect 0 "24 of 24" run "$example" --out "$folder/one" --jobs 1 --no-report
diff -r "$small" "$folder/one" || failures=$((failures + 1))
[ "$(wc -l < "$small/results.csv")" -eq 25 ] || failures=$((failures + 1))
[ "$(cut -d, -f5 "$small/summary.csv" | sort -u | tr '\n' ' ')" = "2 seeds " ] ||
  failures=$((failures + 1))
# Killed wherever it is once the first cell is there.
"$lab" run "$example" --out "$folder/killed" --jobs 2 --no-report > "$folder/printed" 2>&1 &
pid=$!
until ls "$folder/killed/cells/"*.json > "$folder/listed" 2>&1 || ! kill -0 $pid 2> "$folder/none"; do
  :
done
kill -9 $pid 2> "$folder/none"
wait $pid 2> "$folder/none"
expect 0 "24 of 24" run "$example" --out "$folder/killed" --jobs 1 --no-report
diff -r "$small" "$folder/killed" || failures=$((failures + 1))
# A signal lets cells end, here of so many that most have not begun.
margins=$(LC_ALL=C seq -s ", " 1.01 0.01 3)
sed "s/\[1.25, 2\]/[$margins]/" "$example" > "$folder/long.json"
"$lab" run "$folder/long.json" --out "$folder/stopped" --jobs 1 --no-report > "$folder/printed" 2>&1 &
pid=$!
until ls "$folder/stopped/cells/"*.json > "$folder/listed" 2>&1 || ! kill -0 $pid 2> "$folder/none"; do
  :
done
kill -TERM $pid 2> "$folder/none"
wait $pid
[ $? -eq 130 ] || failures=$((failures + 1))
grep -q "of 1608 cells are finished; run the same command to continue" "$folder/printed" || failures=$((failures + 1))
for cell in "$folder/stopped/cells/"*~static~*; do
  cmp "$cell" "$small/cells/${cell##*/}" || failures=$((failures + 1))
done
sed 's/"seeds"/"seed"/' "$example" > "$folder/other.json"
expect 1 'other.json: seed: is not a known key of this object; did you mean "seeds"?' \
  run "$folder/other.json" --out "$folder/other"
sed 's/"seeds"/"seed"/; s/"experiment"/"experimant"/' "$example" > "$folder/other.json"
expect 1 "2 problems" run "$folder/other.json" --out "$folder/other"
sed 's/\[1, 2\]/[1, 3]/' "$example" > "$folder/other.json"
expect 1 "is of an experiment other than" run "$folder/other.json" --out "$small"
# Without Python, a line says what to install.
PATH=$folder/none "$lab" run "$example" --out "$small" > "$folder/printed" 2>&1 && failures=$((failures + 1))
grep -qF "this command needs Python 3.10 or newer" "$folder/printed" || failures=$((failures + 1))
# Python's modules in the current folder are not run.
mkdir "$folder/modules"
echo "raise SystemExit('a module of the current folder')" > "$folder/modules/json.py"
(cd "$folder/modules" && "$lab" run "$example" --list) > "$folder/printed" 2>&1 || failures=$((failures + 1))
grep -q "~prefix~s2" "$folder/printed" || failures=$((failures + 1))
# Tables and figures are those of the source tree.
here=$(dirname "$example")
expect 0 "leaderboard" reproduce --source "$here/../.."
expect 2 "no such table or figure; known are policies" reproduce best --source "$here/../.."
expect 1 "is not in vmart's source tree" reproduce --source "$folder"
expect 0 "policies: as committed" reproduce policies --source "$here/../.." --out "$folder/made" \
  --from "$here/../../docs/measurements/study.csv"

# Without the libraries of the report the results are there, whether or not this machine has them.
for missing in pandas plotly; do
  mkdir -p "$folder/without-$missing"
  echo "raise ImportError('not installed')" > "$folder/without-$missing/$missing.py"
  PYTHONPATH=$folder/without-$missing "$lab" run "$example" --out "$small" > "$folder/printed" 2>&1 || {
    echo "exit $? without $missing:"
    cat "$folder/printed"
    failures=$((failures + 1))
  }
  if command -v python3 > "$folder/printed2"; then
    grep -qF "vmart.lab report $small" "$folder/printed" || failures=$((failures + 1))
  fi
done
# What the report needs comes with the package.
for needed in pandas plotly; do
  grep -q "^lab = .*$needed" "$(dirname "$0")/../../../pyproject.toml" ||
    failures=$((failures + 1))
done

expect 2 "RECORDING is missing" check
expect 1 "a.vtrace: offset 0: is not a recording" check "$folder/a.vtrace"
expect 1 "none.rec: offset 0: cannot be read" check "$folder/none.rec"
expect 1 "none.json: No such file" check "$folder/none.rec" --calibration "$folder/none.json"
expect 1 "--within takes one percentage" check "$folder/none.rec" --within 1,2,3
expect 1 "--half-life -1 is out of range" check "$folder/none.rec" --half-life=-1

# Through a pipe.
echo '{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}' |
  "$lab" convert mooncake - "$folder/pipe.jsonl" > "$folder/printed" || failures=$((failures + 1))
grep -q "2 access, 1 alloc, 1 free" "$folder/printed" || failures=$((failures + 1))

expect 2 "did you mean replay?" repaly
expect 2 "did you mean show?" machine shw
expect 2 "did you mean --machine?" replay "$folder/a.vtrace" --machin h200x2
for shell in bash zsh fish; do
  "$lab" completion "$shell" > "$folder/completion.$shell" || failures=$((failures + 1))
  command -v "$shell" > "$folder/found.txt" || continue
  "$shell" -n "$folder/completion.$shell" || failures=$((failures + 1))
done
expect 0 ".SS" man

[ "$failures" -eq 0 ] || echo "$failures failures"
exit "$((failures > 0))"
