// NumPy's memory handler (NEP 49): data of large arrays is memory of vmart that the CPU faults in.
// Small arrays stay NumPy's own, because an allocation has at least one chunk. NumPy's C interface
// is taken from the table that it publishes, so that nothing is built against one version of it.
#include "python/core/bindings.hpp"
#include "python/core/cpu_views.hpp"
#include "python/core/interpreter.hpp"

#include <vma/error.hpp>
#include <vma/vma.hpp>

#include <nanobind/stl/string.h>

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace nb = nanobind;

namespace vma {
namespace {

/// As NEP 49 defines them; version 1.
struct NumpyAllocator {
  void* context;
  void* (*malloc)(void* context, std::size_t size);
  void* (*calloc)(void* context, std::size_t count, std::size_t size);
  void* (*realloc)(void* context, void* pointer, std::size_t size);
  void (*free)(void* context, void* pointer, std::size_t size);
};
struct NumpyHandler {
  char name[127];
  std::uint8_t version;
  NumpyAllocator allocator;
};
constexpr int set_handler_index = 304;  // PyDataMem_SetHandler in NumPy's table, since 1.22.

/// The arrays' memory of one handler. Lives until the process ends, since arrays may.
class ArrayMemory {
 public:
  ArrayMemory(Place at, std::size_t least_bytes, std::string tag) : at_(at), least_(least_bytes) {
    options_.tag = std::move(tag);
    options_.cpu_access = CpuAccess::fault;
  }

  /// Null if there is no room.
  void* allocate(std::size_t bytes, bool zeroed) noexcept {
    if (bytes < least_) return zeroed ? std::calloc(bytes, 1) : std::malloc(bytes);
    try {
      AllocOptions options = options_;
      options.zeroed = zeroed;
      void* pointer = nullptr;
      Array array{bytes, FaultsOrHooks::claim(FaultsOrHooks::Kind::faults, "vmart.numpy.handler"),
                  CpuView()};
      {
        const Unlocked unlocked;  // NumPy may call without the GIL.
        pointer = vma::alloc(bytes, at_, options);
      }
      const std::scoped_lock lock(mutex_);
      arrays_.emplace(pointer, std::move(array));
      return pointer;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) return nullptr;
      // A forked child, after `shutdown`, or beside hooks: NumPy goes on with memory of the
      // process.
      return zeroed ? std::calloc(bytes, 1) : std::malloc(bytes);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  void* reallocate(void* pointer, std::size_t bytes) noexcept {
    const std::optional<std::size_t> size = size_of(pointer);
    if (!size && bytes < least_) return std::realloc(pointer, bytes);
    void* const larger = allocate(bytes, false);
    if (larger == nullptr || pointer == nullptr) return larger;
    std::memcpy(larger, pointer, std::min(bytes, size ? *size : malloc_usable_size(pointer)));
    free(pointer);
    return larger;
  }

  /// Waits for the GPU like cudaFree, if it is memory of vmart.
  void free(void* pointer) noexcept {
    decltype(arrays_)::node_type ended;  // Its claim and its view go after the memory.
    {
      const std::scoped_lock lock(mutex_);
      ended = arrays_.extract(pointer);
      if (ended.empty()) return std::free(pointer);
    }
    try {
      const Unlocked unlocked;
      vma::free(pointer);
    } catch (const std::exception&) {  // A forked child, or after `shutdown`: it is gone already.
    }
  }

 private:
  struct Array {
    std::size_t bytes;
    std::shared_ptr<void> claim;
    CpuView view;
  };

  std::optional<std::size_t> size_of(void* pointer) {
    const std::scoped_lock lock(mutex_);
    const auto found = arrays_.find(pointer);
    if (found == arrays_.end()) return std::nullopt;
    return found->second.bytes;
  }

  const Place at_;
  const std::size_t least_;
  AllocOptions options_;
  std::mutex mutex_;
  std::unordered_map<void*, Array> arrays_;
};

ArrayMemory& memory_of(void* context) {
  return *static_cast<ArrayMemory*>(context);
}

/// Returns the capsule that NumPy takes for a handler.
nb::capsule make_handler(Place at, std::size_t least_bytes, const std::string& tag) {
  auto* const handler = new NumpyHandler{
      {},
      1,
      {new ArrayMemory(at, least_bytes, tag),
       [](void* context, std::size_t size) { return memory_of(context).allocate(size, false); },
       [](void* context, std::size_t count, std::size_t size) -> void* {
         if (size != 0 && count > std::numeric_limits<std::size_t>::max() / size) return nullptr;
         return memory_of(context).allocate(count * size, true);
       },
       [](void* context, void* pointer, std::size_t size) {
         return memory_of(context).reallocate(pointer, size);
       },
       [](void* context, void* pointer, std::size_t) { memory_of(context).free(pointer); }}};
  std::strncpy(handler->name, "vmart", sizeof handler->name - 1);
  return nb::capsule(handler, "mem_handler");
}

/// Returns the handler before. Throws what NumPy raises.
nb::object set_handler(nb::object handler) {
  const nb::object array = nb::module_::import_("numpy").attr("_core").attr("multiarray");
  const nb::object api = array.attr("_ARRAY_API");
  void** const table = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), nullptr));
  if (table == nullptr) throw nb::python_error();
  const auto set = reinterpret_cast<PyObject* (*)(PyObject*)>(table[set_handler_index]);
  PyObject* const before = set(handler.is_none() ? nullptr : handler.ptr());
  if (before == nullptr) throw nb::python_error();
  return nb::steal(before);
}

}  // namespace

void bind_numpy(nb::module_& module) {
  module.def("make_numpy_handler", &make_handler, nb::arg("at"), nb::arg("least_bytes"),
             nb::arg("tag"));
  module.def("set_numpy_handler", &set_handler, nb::arg("handler").none());
}

}  // namespace vma
