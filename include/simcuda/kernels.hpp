#pragma once

#include <vma/device.hpp>

#include <vector>

/// The kernels of programs that run on simcuda, a libcuda.so.1 on simulated GPUs
/// (runtime/simcuda/README.md). They run as host functions: one call of `Kernel::host_body` does
/// the work of a whole grid.
///
/// A program finds a kernel by its entry. If `Kernel::ptx` is empty, the host function serves every
/// PTX that declares the entry, and its parameters are those declared there. Otherwise the program
/// must load exactly this PTX, or a binary, whose kernels are taken to be those of the same entry.
/// So `ptx` has to be there for programs that load binaries. All libraries together have one kernel
/// of an entry.
namespace simcuda {

/// What a shared object of kernels exports. It and simcuda need the same minor version of vmart and
/// the same C++ library, since kernels cross between them as C++ objects.
struct HostKernels {
  unsigned version = 0;  ///< `kernels_version` of the header that it was compiled with.
  std::vector<vma::Kernel> (*kernels)() = nullptr;
};

/// Changes with this header, and with what <vma/device.hpp> says of kernels.
constexpr unsigned kernels_version = 1;

}  // namespace simcuda

/// Exports the kernels of a shared object, which is named in SIMCUDA_KERNELS, or of a program that
/// is linked with -rdynamic. The argument is a function, or a lambda without captures, that returns
/// a `std::vector<vma::Kernel>`. The first cuInit calls it, once. Use it once per library, at file
/// scope. Only headers are needed.
#define SIMCUDA_EXPORT_KERNELS(...)                                                     \
  extern "C" {                                                                          \
  extern VMART_EXPORT const ::simcuda::HostKernels simcuda_kernels;                     \
  constinit const ::simcuda::HostKernels simcuda_kernels = {::simcuda::kernels_version, \
                                                            __VA_ARGS__};               \
  }
