// Modules, libraries and their kernels.
#include "simcuda/library.hpp"
#include "simcuda/modules.hpp"
#include "simcuda/handle_table.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

namespace vma {
namespace {

HandleTable<Module>& modules() {
  static HandleTable<Module>& all = *new HandleTable<Module>;
  return all;
}

void load(CUmodule* module, Code code) {
  required(module);
  const ContextHandle context = current_context();
  *module = native_of<CUmodule>(modules().add(std::make_shared<Module>(std::move(code), context)));
}

std::string contents_of(const char* path) {
  std::ifstream file(required(path), std::ios::binary);
  if (!file) refuse(CUDA_ERROR_FILE_NOT_FOUND);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  text.resize(text.size() + sizeof(std::uint32_t));  // So that its magic number can be read.
  return text;
}

/// Writes why the code was refused to where the program asked for it.
void write_log(unsigned int count, const CUjit_option* options, void* const* values) {
  char* log = nullptr;
  std::size_t size = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      size = reinterpret_cast<std::uintptr_t>(values[i]);
    }
  }
  if (log != nullptr && size != 0) std::snprintf(log, size, "the simulator found no PTX");
}

Code code_with_log(const void* image, unsigned int count, const CUjit_option* options,
                   void* const* values) {
  try {
    return Code::of(image);
  } catch (const Refusal&) {
    write_log(count, options, values);
    throw;
  }
}

int attribute_of_function(CUfunction_attribute which) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return 1024;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return 32;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return 90;
    default: return 0;
  }
}

int blocks_per_multiprocessor(int block_size) {
  constexpr int threads = 2048;
  if (block_size <= 0 || block_size > 1024) refuse(CUDA_ERROR_INVALID_VALUE);
  return threads / block_size > 32 ? 32 : threads / block_size;
}

}  // namespace

SIMCUDA_CALL(cuModuleLoadData, (CUmodule * module, const void* image), (module, image)) {
  load(module, Code::of(image));
}
SIMCUDA_CALL(cuModuleLoadDataEx,
             (CUmodule * module, const void* image, unsigned int count, CUjit_option* options,
              void** values),
             (module, image, count, options, values)) {
  load(module, code_with_log(image, count, options, values));
}
SIMCUDA_CALL(cuModuleLoadFatBinary, (CUmodule * module, const void* image), (module, image)) {
  load(module, Code::of(image));
}
SIMCUDA_CALL(cuModuleLoad, (CUmodule * module, const char* path), (module, path)) {
  load(module, Code::of(contents_of(path).data()));
}
SIMCUDA_CALL(cuModuleUnload, (CUmodule module), (module)) {
  modules().at(module)->unload();
  modules().take(module);
}
SIMCUDA_CALL(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* entry),
             (function, module, entry)) {
  required(function);
  *function = native_of<CUfunction>(modules().at(module)->function(required(entry))->handle);
}
SIMCUDA_CALL(cuModuleGetGlobal_v2, (CUdeviceptr*, std::size_t*, CUmodule module, const char*),
             (nullptr, nullptr, module, nullptr)) {
  modules().at(module);
  refuse(CUDA_ERROR_NOT_FOUND);  // Host functions have no variables of a module.
}
SIMCUDA_CALL(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode)) {
  sim();
  *required(mode) = CU_MODULE_LAZY_LOADING;
}

// --- Kernels
SIMCUDA_CALL(cuFuncLoad, (CUfunction function), (function)) {
  function_of(function);
}
SIMCUDA_CALL(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction function),
             (state, function)) {
  function_of(function);
  *required(state) = CU_FUNCTION_LOADING_STATE_LOADED;
}
SIMCUDA_CALL(cuFuncGetAttribute, (int* value, CUfunction_attribute which, CUfunction function),
             (value, which, function)) {
  function_of(function);
  *required(value) = attribute_of_function(which);
}
SIMCUDA_CALL(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute, int),
             (function, CU_FUNC_ATTRIBUTE_MAX, 0)) {
  function_of(function);
}
SIMCUDA_CALL(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache),
             (function, CU_FUNC_CACHE_PREFER_NONE)) {
  function_of(function);
}
// The text lives as long as the kernel.
SIMCUDA_CALL(cuFuncGetName, (const char** name, CUfunction function), (name, function)) {
  *required(name) = function_of(function)->entry.c_str();
}
SIMCUDA_CALL(cuFuncGetParamInfo,
             (CUfunction function, std::size_t number, std::size_t* offset, std::size_t* size),
             (function, number, offset, size)) {
  // A CUkernel is refused here, as by the driver.
  if (libraries().kernels.contains(function)) refuse(CUDA_ERROR_INVALID_HANDLE);
  tell_parameter(function_of(function)->parameters, number, offset, size);
}
SIMCUDA_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
             (int* blocks, CUfunction function, int block_size, std::size_t),
             (blocks, function, block_size, 0)) {
  function_of(function);
  *required(blocks) = blocks_per_multiprocessor(block_size);
}
SIMCUDA_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
             (int* blocks, CUfunction function, int block_size, std::size_t, unsigned int),
             (blocks, function, block_size, 0, 0)) {
  function_of(function);
  *required(blocks) = blocks_per_multiprocessor(block_size);
}

// --- Libraries
SIMCUDA_CALL(cuLibraryLoadData,
             (CUlibrary * library, const void* image, CUjit_option* options, void** values,
              unsigned int count, CUlibraryOption*, void**, unsigned int),
             (library, image, options, values, count, nullptr, nullptr, 0)) {
  required(library);
  sim();
  const auto loaded = std::make_shared<LoadedCode>(code_with_log(image, count, options, values));
  *library = native_of<CUlibrary>(libraries().loaded.add(loaded));
}
SIMCUDA_CALL(cuLibraryUnload, (CUlibrary library), (library)) {
  const auto unloaded = libraries().loaded.take(library);
  const MutexLock lock(unloaded->mutex);
  for (const auto& [entry, kernel] : unloaded->kernels) libraries().kernels.take(kernel);
  for (const auto& [context, module] : unloaded->modules) module->unload();
}
SIMCUDA_CALL(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char* entry),
             (kernel, library, entry)) {
  required(kernel);
  const auto loaded = libraries().loaded.at(library);
  Code::Found found = loaded->code.find(required(entry));
  const MutexLock lock(loaded->mutex);
  CUkernel& known = loaded->kernels[entry];
  if (known == nullptr) {
    const auto made =
        std::make_shared<LibraryKernel>(LibraryKernel{loaded, entry, std::move(found.parameters)});
    known = native_of<CUkernel>(libraries().kernels.add(made));
  }
  *kernel = known;
}
SIMCUDA_CALL(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (function, kernel)) {
  required(function);
  *function = native_of<CUfunction>(libraries().function(kernel)->handle);
}
SIMCUDA_CALL(cuKernelGetParamInfo,
             (CUkernel kernel, std::size_t number, std::size_t* offset, std::size_t* size),
             (kernel, number, offset, size)) {
  tell_parameter(libraries().kernels.at(kernel)->parameters, number, offset, size);
}

}  // namespace vma
