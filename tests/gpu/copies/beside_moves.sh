#!/usr/bin/env bash
# beside_moves.sh LIBVMART.SO INCLUDE [OPTION...]
# Builds beside_moves.cpp against CUDA's runtime, linked statically and as a library, and plays each before
# and after vmart opens. Exits with 77 without a toolkit or a GPU. The options are those of beside_moves.
set -uo pipefail

library=$1 include=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "skipped: no nvcc"; exit 77; }
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU') || true
((${gpus:-0} >= 1)) || { echo "skipped: no GPU"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
for runtime in static shared; do
  "$nvcc" -std=c++20 -O1 -cudart "$runtime" -DBESIDE_MOVES_RUNTIME -I"$include" -I"$here/../.." \
    "$here"/{beside_moves,driver_kinds}.cpp "$here/runtime_kinds.cu" -o "$folder/$runtime" \
    "$library" -Xlinker "-rpath,$(dirname "$library")" -lcuda || exit 1
  for order in "" --vmart-first; do
    echo "--- CUDA's runtime $runtime ${order:---cuda-first}"
    # shellcheck disable=SC2086
    "$folder/$runtime" $order "$@"
    status=$?
    [[ $status == 77 ]] && exit 77
    [[ $status == 0 ]] || { echo "left with $status"; failed=1; }
  done
done
exit "$failed"
