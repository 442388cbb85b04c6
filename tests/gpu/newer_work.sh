#!/usr/bin/env bash
# newer_work.sh LIBVMART.SO INCLUDE [MOVES]
# Builds newer_work.cu and endless_work.cu with nvcc and plays each of their cases in a process of its
# own, with so many moves beside endless work. Exits with 77 where there is no nvcc, there are no two
# GPUs, or they are older than Hopper.
set -uo pipefail

library=$1 include=$2 moves=${3:-60}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "skipped: no nvcc"; exit 77; }
# Without a driver there is nothing to link against either.
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU') || true
((${gpus:-0} >= 2)) || { echo "skipped: needs two GPUs"; exit 77; }
# Programmatic dependent launches came with compute capability 9.0. The oldest GPU decides.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -V | head -1)
[[ $capability =~ ^[0-9]+\.[0-9]+$ ]] || { echo "nvidia-smi tells no compute capability: $capability"; exit 1; }
((${capability%.*} >= 9)) || { echo "skipped: compute capability $capability, needs 9.0"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Graphs that kernels launch need the device's runtime, hence -rdc.
for source in newer_work endless_work; do
  "$nvcc" -std=c++20 -O2 -arch="sm_${capability/./}" -rdc=true -I"$include" "$here/$source.cu" -o "$folder/$source" \
    "$library" -Xlinker "-rpath,$(dirname "$library")" -lcudadevrt -lcuda || exit 1
done

failed=0 played=0
# play PROGRAM CASE ...
play() {
  timeout 120 "$folder/$1" "${@:2}"
  local status=$?
  [[ $status == 77 ]] && return
  played=1
  [[ $status == 0 ]] || { echo "$2: left with $status"; failed=1; }
}
for name in pdl pdl-early-end green graph-fire-and-forget graph-tail graph-sibling; do play newer_work "$name"; done
for name in graph-self across; do play endless_work "$name" "$moves"; done
((played)) || exit 77
exit "$failed"
