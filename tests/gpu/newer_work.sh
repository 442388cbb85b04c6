#!/usr/bin/env bash
# newer_work.sh LIBVMART.SO INCLUDE
# Builds newer_work.cu with nvcc and plays each of its cases in a process of its own. Exits with 77
# where there is no nvcc, there are no two GPUs, or they are older than Hopper.
set -uo pipefail

library=$1 include=$2
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
"$nvcc" -std=c++20 -O2 -arch="sm_${capability/./}" -rdc=true -I"$include" "$here/newer_work.cu" -o "$folder/newer_work" \
  "$library" -Xlinker "-rpath,$(dirname "$library")" -lcudadevrt -lcuda || exit 1

failed=0
for name in pdl pdl-early-end green graph-fire-and-forget graph-tail graph-sibling; do
  timeout 60 "$folder/newer_work" "$name"
  status=$?
  [[ $status == 77 ]] && exit 77
  [[ $status == 0 ]] || { echo "$name: left with $status"; failed=1; }
done
exit "$failed"
