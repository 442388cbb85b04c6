#!/bin/sh
# Makes the .ptx.inc of each .cu beside it. Needs nvcc, which building the tests does not.
# The PTX version is set back by hand, so that every supported driver takes it; ptxas then checks it.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in test_kernels sample_kernels twin_kernels planted_settle read_range; do
  nvcc -std=c++17 -arch=compute_80 -ptx "$name.cu" -o "$work/new.ptx"
  sed -e 's/^\.version .*/.version 7.8/' -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$work/new.ptx" > "$work/old.ptx"
  if [ "$name" = planted_settle ]; then  # The other kernels of the file are not wanted.
    awk 'BEGIN { keep = 1 } /^\.visible \.entry/ { keep = /vmart_live_settle\(/ } keep' \
      "$work/old.ptx" > "$work/some.ptx"
    mv "$work/some.ptx" "$work/old.ptx"
  fi
  ptxas -arch=sm_80 "$work/old.ptx" -o "$work/checked.cubin"
  { echo 'R"ptx('; cat "$work/old.ptx"; echo ')ptx"'; } > "$name.ptx.inc"
done
