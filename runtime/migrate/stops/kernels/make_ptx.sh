#!/bin/sh
# Makes beat.ptx.inc, or the file named, from beat.cu.
folder=$(dirname "$0")
exec "$folder/../../../make_ptx.sh" "$folder" beat 7.0 "${1:-beat.ptx.inc}"
