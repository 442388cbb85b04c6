#pragma once

#include "support/cuda/modules.hpp"
#include "support/cuda/objects.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// Code that belongs to no context: a module is loaded for each context that uses it.
struct LoadedLibrary {
  explicit LoadedLibrary(Code loaded) : code(std::move(loaded)) {}

  std::shared_ptr<Module> module_in(ContextHandle context) {
    const MutexLock lock(mutex);
    std::shared_ptr<Module>& module = modules[context];
    if (module == nullptr) module = std::make_shared<Module>(code, context);
    return module;
  }

  const Code code;
  Mutex mutex;
  std::map<ContextHandle, std::shared_ptr<Module>> modules VMART_GUARDED_BY(mutex);
  std::map<std::string, CUkernel> kernels VMART_GUARDED_BY(mutex);
};

struct LibraryKernel {
  std::weak_ptr<LoadedLibrary> library;
  std::string entry;
  std::vector<ParameterInfo> parameters;
};

/// The program's libraries and their kernels.
struct Libraries {
  Objects<LoadedLibrary> loaded;
  Objects<LibraryKernel> kernels;

  /// The kernel in the current context. Throws: Refusal{INVALID_HANDLE}, and as
  /// `Module::function`.
  std::shared_ptr<const Function> function(CUkernel kernel) {
    const auto known = kernels.at(kernel);
    const auto library = known->library.lock();
    if (library == nullptr) refuse(CUDA_ERROR_INVALID_HANDLE);
    return library->module_in(current_context())->function(known->entry);
  }
};

inline Libraries& libraries() {
  static Libraries& all = *new Libraries;
  return all;
}

}  // namespace vma
