#pragma once

#include "support/cuda/boundary.hpp"
#include "support/cuda/library.hpp"

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
  /// Null if the code has no such kernel, or no host function is known for it. PTX must be the
  /// known kernel's own: a changed kernel does something else than the host function.
  const Kernel* find(std::string_view entry) const;
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

/// The kernels behind a program's handles, which may be a CUkernel in place of a CUfunction.
/// Throws: Refusal{INVALID_HANDLE}.
std::shared_ptr<const Function> function_of(CUfunction handle);

/// A launch's arguments, from one pointer per parameter or from a buffer in `extra`.
KernelArguments arguments_of(const Function& function, void** pointers, void** extra);

/// Enqueues a kernel; that which stops a stream becomes a stop.
void launch(BoundStream stream, const Function& function, LaunchShape shape,
            const KernelArguments& arguments);

/// What a parameter query answers. Throws: Refusal{INVALID_VALUE} behind the last parameter.
void tell_parameter(const std::vector<ParameterInfo>& parameters, std::size_t number,
                    std::size_t* offset, std::size_t* size);

}  // namespace vma
