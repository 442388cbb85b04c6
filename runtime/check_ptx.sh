#!/bin/sh
# check_ptx.sh FOLDER NAME: whether NAME.ptx.inc is what the folder's make_ptx.sh makes of NAME.cu.
# Leaves with 77 where nvcc is missing or is not the one that made it: another release writes other PTX.
set -eu
cd "$1"
inc=$2.ptx.inc
made_with=$(sed -n '1s/.* nvcc //p' "$inc")
here=$(nvcc --version 2>/dev/null | sed -n 's/.*release .*, V//p') || true
if [ "$here" != "$made_with" ]; then
  echo "SKIPPED: $inc was made with nvcc $made_with, here is ${here:-none}"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./make_ptx.sh "$work/$inc"
cmp "$inc" "$work/$inc" || {
  echo "$inc is stale: run make_ptx.sh"
  exit 1
}
