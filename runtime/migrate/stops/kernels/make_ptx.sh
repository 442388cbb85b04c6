#!/bin/sh
# Makes beat.ptx.inc, or the file named, from beat.cu. Needs nvcc, which building vmart does not.
# The PTX version and the GPU are set back by hand, so that every supported driver takes it.
set -eu
cd "$(dirname "$0")"
out=${1:-beat.ptx.inc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++17 -arch=compute_80 -ptx beat.cu -o "$work/new.ptx"
sed -e 's/^\.version .*/.version 7.0/' -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$work/new.ptx" > "$work/old.ptx"
ptxas -arch=sm_80 "$work/old.ptx" -o "$work/checked.cubin"
{
  echo "// Made by make_ptx.sh with nvcc $(nvcc --version | sed -n 's/.*release .*, V//p')"
  echo 'R"ptx('
  cat "$work/old.ptx"
  echo ')ptx"'
} > "$work/new.inc"
mv "$work/new.inc" "$out"
