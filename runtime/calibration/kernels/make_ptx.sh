#!/bin/sh
# Makes access.ptx.inc, or the file named, from access.cu.
folder=$(dirname "$0")
exec "$folder/../../make_ptx.sh" "$folder" access 7.8 "${1:-access.ptx.inc}"
