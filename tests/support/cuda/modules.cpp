#include "support/cuda/modules.hpp"

#include "support/cuda/graphs.hpp"
#include "support/cuda/kernel_table.hpp"
#include "support/cuda/libraries.hpp"

#include "sim/ptx_parameters.hpp"

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

/// For each context, the chain that its stops resemble.
struct StopChains {
  Mutex mutex;
  std::map<ContextHandle, ExecGraphHandle> of_context VMART_GUARDED_BY(mutex);
};
StopChains& stop_chains() {
  static StopChains& all = *new StopChains;
  return all;
}

ExecGraphHandle stop_chain(ContextHandle context, const std::vector<WordOperation>& words) {
  StopChains& all = stop_chains();
  const MutexLock lock(all.mutex);
  const auto found = all.of_context.find(context);
  if (found != all.of_context.end()) return found->second;
  ChainStep step;
  step.words = words;
  const ExecGraphHandle made = sim().make_chain(context, {&step, 1});
  all.of_context.emplace(context, made);
  return made;
}

constexpr std::uint32_t fat_binary_magic = 0xBA55ED50;
constexpr std::uint32_t fat_binary_wrapper_magic = 0x466243B1;
constexpr std::uint32_t elf_magic = 0x464C457F;

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

const Kernel* Code::find(std::string_view entry) const {
  const Kernel* const known = find_kernel(entry);
  return known != nullptr && (binary || known->ptx == ptx) ? known : nullptr;
}

std::shared_ptr<const Function> Module::function(std::string_view entry) {
  const MutexLock lock(mutex_);
  if (const auto found = functions_.find(entry); found != functions_.end()) return found->second;
  const Kernel* const kernel = code_.find(entry);
  if (kernel == nullptr) refuse(CUDA_ERROR_NOT_FOUND);
  std::optional<std::vector<ParameterInfo>> parameters = ptx_parameters(kernel->ptx, entry);
  if (!parameters) refuse(CUDA_ERROR_NOT_FOUND);
  const auto made = std::make_shared<Function>();
  made->context = context_;
  made->entry = entry;
  made->parameters = *std::move(parameters);
  made->stops = entry == stopper_entry;
  made->handle = sim().load_kernels(context_, {&kernel, 1}, {}).front();
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

void launch(BoundStream stream, const Function& function, LaunchShape shape,
            const KernelArguments& arguments) {
  if (!function.stops) {
    sim().launch(stream, function.handle, shape, arguments);
    return note_captured(stream, function, shape, arguments);
  }
  const std::vector<WordOperation> words{
      {WordOperation::Kind::write, arguments.at<Address>(0), arguments.at<std::uint64_t>(1)},
      {WordOperation::Kind::wait_until_at_least, arguments.at<Address>(2),
       arguments.at<std::uint64_t>(3)}};
  sim().stop(stream, stop_chain(function.context, words), words);
}

void tell_parameter(const std::vector<ParameterInfo>& parameters, std::size_t number,
                    std::size_t* offset, std::size_t* size) {
  if (number >= parameters.size()) refuse(CUDA_ERROR_INVALID_VALUE);
  *required(offset) = parameters[number].offset_bytes;
  if (size != nullptr) *size = parameters[number].size_bytes;
}

}  // namespace vma
