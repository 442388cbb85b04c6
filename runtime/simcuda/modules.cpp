#include "simcuda/modules.hpp"

#include "simcuda/kernel_table.hpp"

#include "sim/ptx_parameters.hpp"

#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

namespace vma {
namespace {

/// The loaded kernels of all modules.
struct Functions {
  Mutex mutex;
  std::map<KernelHandle, std::shared_ptr<const Function>> known VMART_GUARDED_BY(mutex);
};
Functions& functions() {
  static Functions& all = *new Functions;
  return all;
}

constexpr std::uint32_t fat_binary_magic = 0xBA55ED50;
constexpr std::uint32_t fat_binary_wrapper_magic = 0x466243B1;
constexpr std::uint32_t elf_magic = 0x464C457F;

/// The program has the kernel, and gets the driver's answer for one that it lacks.
void tell_missing(std::string_view entry, const Kernel* known, bool binary) {
  const char* const why = known == nullptr ? "name a library that has it in SIMCUDA_KERNELS"
                          : binary         ? "for a binary, its Kernel::ptx must declare it"
                                           : "that of this entry is for another PTX";
  std::fprintf(stderr, "simcuda: no host function for the kernel %.*s: %s\n",
               static_cast<int>(entry.size()), entry.data(), why);
}

}  // namespace

Code Code::of(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, required(image), sizeof magic);
  if (magic == fat_binary_magic || magic == fat_binary_wrapper_magic || magic == elf_magic) {
    return {true, {}};
  }
  if (magic == 0 || (magic & 0x80808080u) != 0) refuse(CUDA_ERROR_INVALID_IMAGE);
  Code code{false, static_cast<const char*>(image)};
  if (code.ptx.find(".version") == std::string::npos) refuse(CUDA_ERROR_INVALID_PTX);
  return code;
}

Code::Found Code::find(std::string_view entry) const {
  const Kernel* const known = find_kernel(entry);
  const bool any_ptx = known != nullptr && known->ptx.empty();
  const bool serves = known != nullptr && (binary ? !any_ptx : any_ptx || known->ptx == ptx);
  auto parameters = ptx_parameters(serves && !any_ptx ? known->ptx : ptx, entry);
  if (serves && parameters) return {known, *std::move(parameters)};
  if (parameters || binary) tell_missing(entry, known, binary);
  refuse(CUDA_ERROR_NOT_FOUND);
}

std::shared_ptr<const Function> Module::function(std::string_view entry) {
  const MutexLock lock(mutex_);
  if (const auto known = functions_.find(entry); known != functions_.end()) return known->second;
  Code::Found found = code_.find(entry);
  const auto made = std::make_shared<Function>();
  made->context = context_;
  made->entry = entry;
  made->parameters = std::move(found.parameters);
  made->stops = entry == stopper_entry;
  made->handle = sim().load_kernels(context_, {&found.kernel, 1}, {}).front();
  functions_.emplace(std::string(entry), made);
  const MutexLock all(functions().mutex);
  functions().known.emplace(made->handle, made);
  return made;
}

void Module::unload() {
  sim().synchronize_context(context_);
  const MutexLock lock(mutex_);
  for (const auto& [entry, function] : functions_) {
    sim().unload_kernel(function->handle);
    const MutexLock all(functions().mutex);
    functions().known.erase(function->handle);
  }
  functions_.clear();
}

std::shared_ptr<const Function> function_of(CUfunction handle) {
  {
    const MutexLock lock(functions().mutex);
    const auto found = functions().known.find(handle_of<KernelHandle>(handle));
    if (found != functions().known.end()) return found->second;
  }
  return libraries().function(reinterpret_cast<CUkernel>(handle));
}

KernelArguments arguments_of(const Function& function, void** pointers, void** extra) {
  const std::byte* buffer = nullptr;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(extra[1]);
  }
  KernelArguments arguments;
  std::size_t number = 0;
  for (const ParameterInfo& parameter : function.parameters) {
    std::uint64_t word = 0;
    if (parameter.size_bytes > sizeof word) refuse(CUDA_ERROR_NOT_SUPPORTED);
    const void* const value =
        buffer != nullptr ? buffer + parameter.offset_bytes : required(required(pointers)[number]);
    std::memcpy(&word, value, parameter.size_bytes);
    arguments.push(word);
    ++number;
  }
  return arguments;
}

void tell_parameter(const std::vector<ParameterInfo>& parameters, std::size_t number,
                    std::size_t* offset, std::size_t* size) {
  if (number >= parameters.size()) refuse(CUDA_ERROR_INVALID_VALUE);
  *required(offset) = parameters[number].offset_bytes;
  if (size != nullptr) *size = parameters[number].size_bytes;
}

}  // namespace vma
