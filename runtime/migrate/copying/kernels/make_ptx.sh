#!/bin/sh
# Makes digest.ptx.inc, or the file named, from digest.cu. Needs nvcc, which building vmart does not.
# The PTX version is set back by hand, so that every supported driver takes it; ptxas then checks it,
# and that no register is spilled.
set -eu
cd "$(dirname "$0")"
out=${1:-digest.ptx.inc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++17 -arch=compute_80 -ptx digest.cu -o "$work/new.ptx"
# nvcc marks names of this file with a hash of its path, which is another wherever it lies.
sed -e 's/^\.version .*/.version 7.8/' -e 's/_[0-9a-f]\{8\}_9_digest_cu/_00000000_9_digest_cu/g' -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$work/new.ptx" > "$work/old.ptx"
for arch in sm_80 sm_90; do
  ptxas -arch="$arch" --warn-on-spills --warning-as-error "$work/old.ptx" -o "$work/checked.cubin"
done
{
  echo "// Made by make_ptx.sh with nvcc $(nvcc --version | sed -n 's/.*release .*, V//p')"
  # In several strings, since compilers need not take one of more than 65536 bytes.
  split -l 1000 "$work/old.ptx" "$work/part."
  for part in "$work"/part.*; do
    echo 'R"ptx('
    cat "$part"
    echo ')ptx",'
  done
} > "$work/new.inc"
mv "$work/new.inc" "$out"
