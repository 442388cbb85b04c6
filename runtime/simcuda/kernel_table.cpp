#include "simcuda/kernel_table.hpp"

#include "base/environment.hpp"
#include "calibration/access_kernels.hpp"
#include "migrate/copying/digest.hpp"
#include "migrate/stops/beating_kernel.hpp"
#include "simcuda/boundary.hpp"

#include <simcuda/kernels.hpp>

#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr const char* stopper_ptx =
#include "driver/kernels/stop.ptx.inc"
    ;

void nothing(DeviceView&, const KernelArguments&, LaunchShape) {}

/// By entry. Kernels stay where they are.
using Table = std::map<std::string, const Kernel, std::less<>>;

Table& table() {
  static Table& kernels = *new Table;  // Never destroyed: threads may use it until the end.
  return kernels;
}

template <typename... Values>
[[noreturn]] void refuse_library(const char* format, Values... values) {
  std::fprintf(stderr, "simcuda: ");
  std::fprintf(stderr, format, values...);
  std::fprintf(stderr, "\n");
  refuse(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
}

void add_kernels_of(const simcuda::HostKernels& library, const char* path, Table& kernels) {
  if (library.version != simcuda::kernels_version) {
    refuse_library(
        "%s has kernels for version %u of simcuda/kernels.hpp, this is %u: build it anew", path,
        library.version, simcuda::kernels_version);
  }
  for (Kernel& kernel : library.kernels()) {
    const std::string entry = kernel.entry;
    if (!kernel.host_body) refuse_library("%s: kernel %s has no host body", path, entry.c_str());
    if (!kernels.emplace(entry, std::move(kernel)).second) {
      refuse_library("%s: the runtime or another library has a kernel %s, too", path,
                     entry.c_str());
    }
  }
}

const simcuda::HostKernels* exported_by(void* library) {
  return static_cast<const simcuda::HostKernels*>(dlsym(library, "simcuda_kernels"));
}

const simcuda::HostKernels& load_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // Stays: its functions may run.
  if (library == nullptr) refuse_library("SIMCUDA_KERNELS: %s", dlerror());
  if (const auto* const found = exported_by(library)) return *found;
  refuse_library("SIMCUDA_KERNELS: %s exports no kernels; see SIMCUDA_EXPORT_KERNELS", path);
}

}  // namespace

void load_kernel_libraries() {
  Table kernels;
  kernels.emplace(stopper_entry, Kernel{stopper_ptx, std::string(stopper_entry), nothing});
  for (const auto kernel :
       {&beating_kernel, &copy_digest_kernel, &copy_kernel, &digest_kernel, &settle_kernel,
        &paranoid_settle_kernel, &access_read_kernel, &access_chase_kernel}) {
    kernels.emplace(kernel().entry, kernel());
  }
  std::set<const simcuda::HostKernels*> known;
  const auto add = [&](const simcuda::HostKernels* library, const char* path) {
    if (known.insert(library).second) add_kernels_of(*library, path, kernels);
  };
  if (const auto* const own = exported_by(RTLD_DEFAULT)) add(own, "the program");
  const char* const listed = environment_variable("SIMCUDA_KERNELS");
  std::string left = listed == nullptr ? "" : listed;
  while (!left.empty()) {
    std::string path = left.substr(0, left.find(':'));
    left.erase(0, path.size() + 1);
    if (path.empty()) continue;
    if (path.find('/') == std::string::npos) path.insert(0, "./");  // Not in the loader's folders.
    add(&load_library(path.c_str()), path.c_str());
  }
  table() = std::move(kernels);
}

const Kernel* find_kernel(std::string_view entry) {
  const auto found = table().find(entry);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace vma
