# CCCL, for the tests and examples of <vma/memory_resource.hpp>: the target vmart_cccl, if it is there.
# From 3.5 on its headers need no CUDA runtime to link; the header itself also takes 3.1.
find_path(VMART_CCCL_INCLUDE_DIR cuda/memory_resource
  HINTS ${VMART_CUDA_INCLUDE_DIR}/cccl ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda PATH_SUFFIXES include/cccl
  DOC "Directory of CCCL's <cuda/memory_resource>, CCCL 3.5 or newer (optional)")
mark_as_advanced(VMART_CCCL_INCLUDE_DIR)
if(VMART_CCCL_INCLUDE_DIR)
  cmake_path(GET VMART_CCCL_INCLUDE_DIR PARENT_PATH beside_cccl)
  # CCCL first: a toolkit's own, in a folder of the same name, may be older.
  set(cccl_include_dirs ${VMART_CCCL_INCLUDE_DIR} ${beside_cccl})
  if(VMART_CUDA_INCLUDE_DIR)
    list(APPEND cccl_include_dirs ${VMART_CUDA_INCLUDE_DIR})
  endif()
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES ${cccl_include_dirs})
  set(CMAKE_REQUIRED_FLAGS -w)
  check_cxx_source_compiles("
    #include <cuda/memory_resource>
    #if CCCL_VERSION < 3005000
    #error old
    #endif
    int main() {}" VMART_HAS_CCCL)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_FLAGS)
endif()
if(VMART_HAS_CCCL)
  add_library(vmart_cccl INTERFACE)
  target_include_directories(vmart_cccl SYSTEM INTERFACE ${cccl_include_dirs})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC 12 takes the buffer in which an any_resource holds a resource for uninitialised.
    target_compile_options(vmart_cccl INTERFACE -Wno-maybe-uninitialized)
  endif()
else()
  message(STATUS "CCCL 3.5 or newer was not found: the memory resource is not tried. "
    "Give its directory as -DVMART_CCCL_INCLUDE_DIR=...")
endif()
