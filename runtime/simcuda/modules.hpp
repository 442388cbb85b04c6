#pragma once

#include "simcuda/boundary.hpp"
#include "simcuda/handle_table.hpp"
#include "simcuda/library.hpp"

#include "base/mutex.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// What a program loads: PTX, or a binary, which is taken to contain every known kernel.
struct Code {
  bool binary = false;
  std::string ptx;  ///< Empty for a binary.

  /// Throws: Refusal{INVALID_IMAGE, INVALID_PTX} for anything else.
  static Code of(const void* image);
  struct Found {
    const Kernel* kernel;
    std::vector<ParameterInfo> parameters;
  };
  /// Throws: Refusal{NOT_FOUND} if the code has no such kernel, or no host function is known for
  /// it. A kernel that has PTX serves no other PTX: a changed kernel does something else than the
  /// host function.
  Found find(std::string_view entry) const;
};

/// A loaded kernel. Its CUfunction is the simulator's handle.
struct Function {
  KernelHandle handle{};
  ContextHandle context{};
  std::string entry;
  std::vector<ParameterInfo> parameters;
  bool stops = false;  ///< See `stopper_entry`.
};

/// Code in one context. Each kernel is loaded on first use.
class Module {
 public:
  Module(Code code, ContextHandle context) : code_(std::move(code)), context_(context) {}

  /// Throws: Refusal{NOT_FOUND}. Blocks: if code is new, until the context is idle.
  std::shared_ptr<const Function> function(std::string_view entry);
  /// Waits for the context's work, as the driver does.
  void unload();

 private:
  const Code code_;
  const ContextHandle context_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Function>, std::less<>> functions_
      VMART_GUARDED_BY(mutex_);
};

/// Code that belongs to no context: a module is loaded for each context that uses it.
struct LoadedCode {
  explicit LoadedCode(Code loaded) : code(std::move(loaded)) {}

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
  std::weak_ptr<LoadedCode> library;
  std::string entry;
  std::vector<ParameterInfo> parameters;
};

/// The program's libraries and their kernels.
struct Libraries {
  HandleTable<LoadedCode> loaded;
  HandleTable<LibraryKernel> kernels;

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

/// The kernels behind a program's handles, which may be a CUkernel in place of a CUfunction.
/// Throws: Refusal{INVALID_HANDLE}.
std::shared_ptr<const Function> function_of(CUfunction handle);

/// A launch's arguments, from one pointer per parameter or from a buffer in `extra`.
KernelArguments arguments_of(const Function& function, void** pointers, void** extra);

/// What a parameter query answers. Throws: Refusal{INVALID_VALUE} behind the last parameter.
void tell_parameter(const std::vector<ParameterInfo>& parameters, std::size_t number,
                    std::size_t* offset, std::size_t* size);

}  // namespace vma
