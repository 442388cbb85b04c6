#!/bin/sh
# Whether access.ptx.inc is what make_ptx.sh makes of access.cu. Leaves with 77 where nvcc is missing
# or is not the one that made it: another release writes other PTX.
set -eu
cd "$(dirname "$0")"
made_with=$(sed -n '1s/.* nvcc //p' access.ptx.inc)
here=$(nvcc --version 2>/dev/null | sed -n 's/.*release .*, V//p') || true
if [ "$here" != "$made_with" ]; then
  echo "SKIPPED: access.ptx.inc was made with nvcc $made_with, here is ${here:-none}"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./make_ptx.sh "$work/access.ptx.inc"
cmp access.ptx.inc "$work/access.ptx.inc" || {
  echo "access.ptx.inc is stale: run make_ptx.sh"
  exit 1
}
