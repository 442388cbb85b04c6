#!/bin/sh
# make_image.sh PTX_INC IMAGE_INC: compiles the PTX for the GPUs that most machines have, so that their driver need not
# do it when a program first uses the kernels. Other GPUs, and older drivers, compile the PTX. Needs ptxas and
# fatbinary, which building vmart does not.
# make_image.sh --check PTX_INC IMAGE_INC: whether it is up to date. Leaves with 77 where ptxas is missing or is not the
# one that made it.
set -eu
version() { ptxas --version 2>/dev/null | sed -n 's/.*release .*, V//p'; }
check=false
if [ "$1" = --check ]; then
  check=true
  shift
  made_with=$(sed -n '1s/.* ptxas //p' "$2")
  here=$(version) || true
  if [ "$here" != "$made_with" ]; then
    echo "SKIPPED: $2 was made with ptxas $made_with, here is ${here:-none}"
    exit 77
  fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The text between the marks of the raw strings.
sed -e '/^\/\//d' -e '/^R"ptx($/d' -e '/^)ptx",*$/d' "$1" > "$work/code.ptx"
images=""
for arch in 80 90 100; do
  ptxas -arch="sm_$arch" "$work/code.ptx" -o "$work/$arch.cubin"
  images="$images --image3=kind=elf,sm=$arch,file=$work/$arch.cubin"
done
# shellcheck disable=SC2086
fatbinary --create "$work/image" --compress-all --compress-mode=size $images
{
  echo "// Made by make_image.sh with ptxas $(version)"
  # Whole words, since the driver reads it by words.
  truncate -s %8 "$work/image"
  od -An -v -t x8 -w32 "$work/image" | sed -e 's/ \([0-9a-f]\{16\}\)/0x\1, /g' -e 's/ *$//'
} > "$work/new.inc"
if $check; then
  cmp "$2" "$work/new.inc" || {
    echo "$2 is stale: run make_image.sh"
    exit 1
  }
else
  mv "$work/new.inc" "$2"
fi
