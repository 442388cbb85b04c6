#!/bin/sh
# Makes writer.ptx.inc of writer.cu. Needs nvcc, which building the benchmarks does not.
# The PTX version is set back by hand, so that every supported driver takes it; ptxas then checks it.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++17 -arch=compute_80 -ptx writer.cu -o "$work/new.ptx"
sed -e 's/^\.version .*/.version 7.8/' -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$work/new.ptx" > "$work/old.ptx"
ptxas -arch=sm_80 "$work/old.ptx" -o "$work/checked.cubin"
{ echo 'R"ptx('; cat "$work/old.ptx"; echo ')ptx"'; } > writer.ptx.inc
