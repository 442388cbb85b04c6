#!/bin/sh
# make_ptx.sh FOLDER NAME VERSION OUT: makes OUT from NAME.cu of the folder. Needs nvcc, which building vmart does not.
# The PTX version is set back by hand, so that every supported driver takes it; ptxas then checks it.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -std=c++17 -arch=compute_80 -ptx "$2.cu" -o "$work/new.ptx"
sed -e "s/^\.version .*/.version $3/" -e '/^[[:space:]]*\/\//d' -e '/^$/d' "$work/new.ptx" > "$work/old.ptx"
for arch in sm_80 sm_90; do
  ptxas -arch="$arch" --warn-on-spills --warning-as-error "$work/old.ptx" -o "$work/checked.cubin"
done
{
  echo "// Made by make_ptx.sh with nvcc $(nvcc --version | sed -n 's/.*release .*, V//p')"
  echo 'R"ptx('
  cat "$work/old.ptx"
  echo ')ptx"'
} > "$work/new.inc"
mv "$work/new.inc" "$4"
