#!/usr/bin/env bash
# Compiles the CUDA programs that run_programs.py plays, side by side: ours, and those of a bundle.
#
#   build_programs.sh BUNDLE BUILT     needs nvcc; one line for each program that does not compile
#
# BUNDLE/cuda-samples holds Common and Samples of NVIDIA's cuda-samples, or a part of them;
# BUNDLE/nccl-tests holds that repository. Either may be missing. Nothing is compiled twice.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bundle=$(mkdir -p "$1" && cd "$1" && pwd)
built=$(mkdir -p "$2/samples" "$2/nccl-tests" "$2/cases" && cd "$2" && pwd)
nvcc=${NVCC:-nvcc}
flags="-std=c++17 -O2 -arch=${CUDA_ARCH:-sm_90} -diag-suppress 177,550,1650 -w"
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v "$nvcc")")")")
[ -d "$cuda/lib64" ] || cuda=/usr/local/cuda
wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || true
paths="-L$built/lib -Xlinker -rpath=$cuda/lib64"
if [ -n "$wheels" ] && [ -d "$wheels/cu13" ]; then
  paths="$paths -I$wheels/cu13/include -Xlinker -rpath=$wheels/cu13/lib"
fi

# The wheel of NCCL has no libnccl.so, only its version 2.
nccl_folder() {
  local folder
  for folder in "${NCCL_HOME:-}" "${wheels:-/none}/nccl" "$cuda" /usr/local; do
    if [ -n "$folder" ] && [ -e "$folder/include/nccl.h" ]; then echo "$folder" && return; fi
  done
}

# Libraries by the names that the linker looks for. Wheels have them with their versions only.
link_libraries() {
  local name folder found given=${LD_LIBRARY_PATH:-}
  mkdir -p "$built/lib"
  for name in cuda cudart cublas cusparse cufft curand; do
    for folder in "$cuda/lib64" "${wheels:-/none}/cu13/lib" /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu \
      /usr/lib64 ${given//:/ } "$cuda/lib64/stubs"; do
      found=$(find "$folder/" -maxdepth 1 -name "lib$name.so*" 2>/dev/null | sort | head -1) || true
      if [ -n "$found" ]; then ln -sf "$found" "$built/lib/lib$name.so" && break; fi
    done
  done
}

# What to run, a line each: TARGET|COMMAND.
ours() {
  local source="$here/programs/every_call.cu"
  echo "$built/every_call|$nvcc $flags -cudart static -o TARGET $source"
  echo "$built/every_call_shared|$nvcc $flags -cudart shared $paths -o TARGET $source"
  echo "$built/every_call_per_thread|$nvcc $flags -default-stream per-thread -o TARGET $source"
  for source in launch_loop allocate_loop far_reader; do
    echo "$built/$source|$nvcc $flags -cudart static -o TARGET $here/../../../bench/unmodified/$source.cu"
  done
  echo "$built/exits|$nvcc $flags -cudart static -o TARGET $here/programs/exits.cu -lpthread"
}

# Small programs, each of which checks one promise of the driver's interface.
cases() {
  local source name tests="$here/../.."
  for source in "$here"/programs/cases/*.cu; do
    name=$(basename "${source%.cu}")
    echo "$built/cases/$name|$nvcc $flags -cudart static $paths -o TARGET $source -lcuda -ldl"
  done
  name=plugin_with_deepbind
  echo "$built/cases/$name.plugin.so|$nvcc $flags -cudart static -DPLUGIN -shared -Xcompiler -fPIC -o TARGET $here/programs/cases/$name.cu"
  echo "$built/cases/refused|$nvcc $flags -cudart static $paths -I$tests -o TARGET $tests/run/refused_program.cpp -lcuda -lpthread"
}

libraries_of() {
  case $1 in
    conjugateGradient | conjugateGradientCudaGraphs | conjugateGradientPrecond) echo "-lcublas -lcusparse" ;;
    UnifiedMemoryStreams) echo "-lcublas -Xcompiler -fopenmp" ;;
    simpleCUBLAS | matrixMulCUBLAS | batchCUBLAS) echo "-lcublas" ;;
    simpleCUFFT | convolutionFFT2D) echo "-lcufft" ;;
    MonteCarloMultiGPU) echo "-lcurand" ;;
    cudaOpenMP) echo "-Xcompiler -fopenmp" ;;
    vectorAddDrv | matrixMulDrv | threadMigration | vectorAddMMAP | memMapIPCDrv) echo "-lcuda" ;;
  esac
}

samples() {
  local folder name sources common="$bundle/cuda-samples/Common"
  for folder in "$bundle"/cuda-samples/Samples/*/*/; do
    [ -d "$folder" ] || continue
    name=$(basename "$folder")
    sources=$(find "$folder" -name '*.cu' -o -name '*.cpp' -o -name '*.c' | sort | tr '\n' ' ')
    case $name in
      vectorAddDrv | matrixMulDrv | threadMigration | vectorAddMMAP | memMapIPCDrv)
        local kernel
        kernel=$(find "$folder" -name '*_kernel.cu')
        sources=${sources/$kernel/}
        echo "$built/samples/$(basename "$kernel" .cu)64.fatbin|$nvcc $flags -fatbin -I$common -o TARGET $kernel"
        if [ "$name" = memMapIPCDrv ]; then
          sources="$sources $common/helper_multiprocess.cpp"
          echo "$built/samples/memMapIpc_kernel64.ptx|$nvcc $flags -ptx -I$common -o TARGET $kernel"
        fi
        ;;
    esac
    echo "$built/samples/$name|$nvcc $flags --extended-lambda -rdc=true -Xcompiler -pthread -I$common -I$folder -I${folder}inc $paths -o TARGET $sources $(libraries_of "$name") -lpthread -ldl -lrt"
  done
}

# The objects of nccl-tests that all of its programs share, or the programs.
nccl_tests() {
  local nccl source objects=""
  local folder="$bundle/nccl-tests"
  nccl=$(nccl_folder)
  [ -d "$folder/src" ] && [ -n "$nccl" ] || return 0
  local library="$nccl/lib"
  [ -e "$library/libnccl.so.2" ] || library="$cuda/lib64"
  local compiler="$nvcc $flags --extended-lambda -DNCCL_OS_LINUX -I$nccl/include -I$folder/src -I$folder -I$folder/os -I$folder/verifiable"
  for source in src/common.cu src/util.cu src/timer.cc os/linux.cc verifiable/verifiable.cu; do
    local object
    object="$built/nccl-tests/$(basename "$source").o"
    objects="$objects $object"
    if [ "$1" = objects ]; then echo "$object|$compiler -c -o TARGET $folder/$source"; fi
  done
  [ "$1" = programs ] || return 0
  for source in all_reduce all_gather reduce_scatter broadcast sendrecv alltoall; do
    echo "$built/nccl-tests/${source}_perf|$compiler -o TARGET $folder/src/$source.cu $objects -L$library -l:libnccl.so.2 -Xlinker -rpath=$library -lpthread -ldl"
  done
}

compile() {
  local target=${1%%|*} command=${1#*|}
  if [ -e "$target" ]; then return 0; fi
  if ! log=$(${command/TARGET/"$target.part"} 2>&1); then
    echo "does not compile: $(basename "$target"): $(echo "$log" | grep -v '^$' | head -3 | tr '\n' ' ')"
    return 0
  fi
  mv "$target.part" "$target"
}
export -f compile

all_of() {
  tr '\n' '\0' | xargs -0 -P "${JOBS:-$(nproc)}" -I '{}' bash -c 'compile "$1"' _ '{}'
}

link_libraries
{ ours; cases; samples; nccl_tests objects; } | sort -u -t '|' -k 1,1 | all_of  # Some share a module.
nccl_tests programs | all_of
echo "$(find "$built" -type f -perm -u+x | wc -l) programs in $built"
