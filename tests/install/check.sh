#!/usr/bin/env bash
# check.sh cmake|pkg-config|static|symbols|paths|uninstall BUILD PREFIX COMPILER
# Installs BUILD into PREFIX, then builds and runs the consumer project against it, found in the way
# named; `static` does so with the static library and a C compiler, found by pkg-config; `symbols` looks
# at what the installed library exports instead, `paths` at where it looks, and `uninstall` takes it away again.
set -euo pipefail

way=$1 build=$2 prefix=$3 compiler=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

install_afresh() {
  rm -rf "$prefix"
  cmake --install "$build" --prefix "$prefix/usr" >"$build/install-$way.log"
  # A moved tree must still work: nothing in it may remember where it was installed.
  mv "$prefix/usr" "$prefix/moved"
  # A name that the source tree does not have: it can only be found where it was installed.
  local machines=$prefix/moved/share/vmart/machines
  if [[ -f $machines/h200x2.json ]]; then
    cp "$machines/h200x2.json" "$machines/installed-h200x2.json"
    export VMART_DRIVER=sim:installed-h200x2
  fi
}

# The program finds in the shared object FOLLOW.SO the policy that it is told to use.
use_policy() {
  local program=$1 follow=$2
  (cd / && VMART_POLICY=follow@$follow:uses=3 "$program")
}

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# Those that the build has found to be of a release that is recent enough.
cccl_folders() {
  [[ $(cached VMART_HAS_CCCL) == 1 ]] || return 0
  local folder
  folder=$(cached VMART_CCCL_INCLUDE_DIR)
  echo "$folder;${folder%/*};$(cached VMART_CUDA_INCLUDE_DIR)"
}

# It finds its Python and its machines by itself.
use_lab() {
  local lab=$1 request='{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}'
  export PYTHONDONTWRITEBYTECODE=1
  (cd / && "$lab" run "$here/../../bench/experiments/small.json" --out "$prefix/results" \
    --only 'h200x4~phases~static~prefix~s1')
  (cd / && "$lab" convert mooncake - "$prefix/chat.vtrace" <<<"$request" >/dev/null)
}

use_cmake() {
  cmake -S "$here/consumer" -B "$prefix/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix/moved" \
    -DBoost_ROOT="$(cached Boost_ROOT)" -DCCCL_INCLUDE_DIRS="$(cccl_folders)"
  cmake --build "$prefix/consumer"
  # The lab's Python, wherever the tree lies.
  (cd / && PYTHONPATH=$prefix/moved/share/vmart/python python3 -B -m vmart.lab --help >/dev/null)
  if [[ -x $prefix/moved/bin/vmart-lab ]]; then use_lab "$prefix/moved/bin/vmart-lab"; fi
  local program programs=(consumer c_consumer asio_consumer)
  if [[ -n $(cccl_folders) ]]; then programs+=(cccl_consumer); fi
  for program in "${programs[@]}"; do
    (cd / && "$prefix/consumer/$program")
  done
  use_policy "$prefix/consumer/consumer" "$prefix/consumer/follow.so"
}

use_pkg_config() {
  command -v pkg-config >/dev/null || { echo "skipped: pkg-config is not installed"; exit 77; }
  local found
  found=$(find "$prefix/moved" -name vmart.pc)
  export PKG_CONFIG_PATH=${found%/*}
  local libdir flags
  libdir=$(pkg-config --variable=libdir vmart)
  flags=$(pkg-config --cflags --libs vmart)
  # The flags are words by design.
  # shellcheck disable=SC2086
  "$compiler" -std=c++20 "$here/consumer/consumer.cpp" $flags "-Wl,-rpath,$libdir" \
    -o "$prefix/consumer"
  (cd / && "$prefix/consumer")
  # shellcheck disable=SC2086
  "$compiler" -x c -std=c99 -pedantic -Werror "$here/consumer/c_consumer.c" -x none $flags \
    "-Wl,-rpath,$libdir" -o "$prefix/c_consumer"
  (cd / && "$prefix/c_consumer")
}

# A C program, by a compiler that knows nothing of C++, and a policy that finds the library in it.
use_static() {
  command -v pkg-config >/dev/null || { echo "skipped: pkg-config is not installed"; exit 77; }
  local libdir
  libdir=$(dirname "$(find "$prefix/moved" -name 'libvmart.*' | head -1)")
  if [[ -e $libdir/libvmart.so ]]; then  # A shared build: as if it were a static one.
    rm "$libdir"/libvmart.so*
    cp "$build/runtime/static/libvmart.a" "$libdir"
    cp "$build/runtime/static/vmart.pc" "$libdir/pkgconfig"
  fi
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  # A program looks beside itself, and this one is not installed.
  VMART_MACHINES=$(pkg-config --variable=machinesdir vmart)
  export VMART_MACHINES
  # The flags are words by design.
  # shellcheck disable=SC2046
  cc -std=c99 -pedantic -Werror "$here/consumer/c_consumer.c" \
    $(pkg-config --static --cflags --libs vmart) -o "$prefix/c_consumer"
  (cd / && "$prefix/c_consumer")
  # shellcheck disable=SC2046
  "$compiler" -std=c++20 -shared -fPIC $(pkg-config --cflags vmart) \
    "$here/../unit/scheduling/policy_libraries/good.cpp" -o "$prefix/follow.so"
  use_policy "$prefix/c_consumer" "$prefix/follow.so"
}

# Names without their versions, which are symbols themselves (A).
exported_by() { nm --dynamic --defined-only --without-symbol-versions "$1" | sed -n '/ A /!s/^[0-9a-f]* . //p'; }

# Every exported name is ours: a name of fmt, Boost or the standard library would bind a program's
# own copy of them to this one. tests/interfaces looks at the C interface itself, and at the versions of symbols.
check_symbols() {
  local library foreign
  library=$(find "$prefix/moved" -name 'libvmart.so')
  [[ -n $library ]] || { echo "skipped: a static build exports nothing"; exit 77; }
  foreign=$(exported_by "$library" | c++filt | grep -vE '^(((vtable|typeinfo|typeinfo name|VTT) for )?vma::v1::|vmart_[a-z_]+$)' || true)
  if [[ -n $foreign ]]; then
    echo "exported, but not of the public interface:"
    echo "$foreign"
    exit 1
  fi
  # Not `grep -q`, which would leave nm with a broken pipe.
  exported_by "$library" | c++filt | grep 'vma::v1::to_string' >/dev/null ||
    { echo "the public interface is not exported"; exit 1; }
  local declared exported
  declared=$(grep -ohE '\bvmart_[a-z_]+\(' "$prefix"/moved/include/vma/vmart*.h | tr -d '(' | sort -u)
  # What libvmart-run looks up is private.
  exported=$(exported_by "$library" | grep -E '^vmart_[a-z_]+$' | grep -vx vmart_run_table | sort -u || true)
  if [[ $declared != "$exported" ]]; then
    echo "declared in the C headers against exported:"
    diff <(echo "$declared") <(echo "$exported")
    exit 1
  fi
}

# What is installed neither names the trees that it was built from and in, nor looks there. Names of
# sources may stand in messages of failed checks.
check_paths() {
  local source file named
  source=$(sed -n 's/^vmart_SOURCE_DIR:STATIC=//p' "$build/CMakeCache.txt")
  for file in $(find "$prefix/moved" -name 'libvmart*' -type f) "$prefix"/moved/bin/*; do
    named=$(strings -d "$file" | grep -F -e "$source/" -e "$build" | grep -vE '\.[chi]pp$' || true)
    if [[ -n $named ]]; then
      echo "$file names the source or build tree:"
      echo "$named"
      exit 1
    fi
  done
  "$here/search_paths.py" "$prefix/moved"
  # ldconfig makes links by what libraries call themselves.
  for file in "$(dirname "$(find "$prefix/moved" -name 'libvmart.*' | head -1)")"/*.so*; do
    if readelf -d "$file" 2>/dev/null | grep 'soname.*libcuda' >/dev/null; then
      echo "$file would become the driver of all programs"
      exit 1
    fi
  done
  local vmart=$prefix/moved/bin/vmart answer
  [[ -x $vmart ]] || { echo "skipped: the command line is not built"; exit 77; }
  (cd / && "$vmart" demo --mib 8 >/dev/null)
  ln -s "$prefix/moved/bin" "$prefix/linked"  # As /lib is a link to /usr/lib.
  (cd / && "$prefix/linked/vmart" demo --mib 8 >/dev/null)
  if find "$prefix/moved" -name libvmart-run.so | grep -q .; then
    (cd / && "$vmart" run -- grep -q libvmart-run.so /proc/self/maps)
  fi
  if find "$prefix/moved" -path '*simcuda/libcuda.so.1' | grep -q .; then
    local way
    for way in preload shim; do  # Each finds the library.
      answer=$(cd / && VMART_DRIVER='' "$vmart" simulate -- "$vmart" run --way "$way" -- python3 -B "$here/allocate.py")
      [[ $answer == *"/libvmart.so."* ]] || { echo "--way $way without libvmart: $answer"; exit 1; }
    done
  fi
  mv "$prefix/moved/share" "$prefix/moved/elsewhere"
  if answer=$(cd / && "$vmart" demo --driver sim:h200x2 2>&1) || [[ $answer != *'no machine file'* ]] ||
    [[ $answer == *"$source/runtime"* ]]; then
    echo "without the installed machines it says: $answer"
    exit 1
  fi
}

# Each file belongs to one package; each of these has a list of its own, since other tests install meanwhile.
check_uninstall() {
  local at=$prefix/again alone=$prefix/alone libdir component
  libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")
  mkdir -p "$at/share/man/man1" "$at/empty" "$at/$libdir" "$alone"
  touch "$at/share/man/man1/other.1" "$at/$libdir/libvmart-shim.so"  # Of an earlier version: it must not stay.
  for component in libvmart libvmart-dev vmart-tools licence; do
    cmake --install "$build" --prefix "$at" --component "$component" >/dev/null
  done
  diff <(cd "$at" && find . ! -type d ! -name other.1 | sort) <(cd "$prefix/moved" && find . ! -type d ! -name installed-h200x2.json | sort) ||
    { echo "the packages together are not what is installed"; exit 1; }
  for component in libvmart libvmart-dev vmart-tools licence; do
    cmake "-Dmanifest=$build/install_manifest_$component.txt" -P "$build/runtime/uninstall.cmake"
  done
  diff <(cd "$at" && find . | sort) <(printf '%s\n' . ./empty ./share ./share/man ./share/man/man1 ./share/man/man1/other.1) ||
    { echo "uninstalled, this is left, or missing"; exit 1; }
  cmake --install "$build" --prefix "$alone" --component licence >/dev/null
  cmake "-Dmanifest=$build/install_manifest_licence.txt" -P "$build/runtime/uninstall.cmake"
  [[ -d $alone && -z $(ls -A "$alone") ]] || { echo "the prefix itself has to stay, and nothing in it"; exit 1; }
  cmake --install "$build" --prefix "$alone" --component licence >/dev/null
  rm "$build/install_prefix_licence.txt"  # As an earlier version left it.
  cmake "-Dmanifest=$build/install_manifest_licence.txt" -P "$build/runtime/uninstall.cmake"
  [[ -z $(ls -A "$alone" 2>/dev/null) ]] || { echo "without the file that names the prefix, this is left"; exit 1; }
}

install_afresh
case $way in
  cmake) use_cmake ;;
  pkg-config) use_pkg_config ;;
  static) use_static ;;
  symbols) check_symbols ;;
  paths) check_paths ;;
  uninstall) check_uninstall ;;
  *) echo "unknown way: $way"; exit 2 ;;
esac
