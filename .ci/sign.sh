#!/usr/bin/env bash
# Signs what is in a folder: SHA256SUMS gets the sum of each file, and SHA256SUMS.sig is signed with an SSH key.
# docs/guide/install.md says how to check both.
#
#   .ci/sign.sh FOLDER [KEY]
#
# Without KEY, only the sums are written.
set -euo pipefail
(($# == 1 || $# == 2)) || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
key=${2:+$(realpath "$2")}
cd "$1"
rm -f SHA256SUMS SHA256SUMS.sig
find . -type f ! -name 'SHA256SUMS*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS
if [[ -n $key ]]; then ssh-keygen -Y sign -q -f "$key" -n vmart SHA256SUMS; fi
