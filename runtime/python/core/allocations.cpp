// Memory that Python objects own, and how others see it: the buffer protocol, DLPack.
#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"
#include "python/core/cpu_views.hpp"

#include <vma/error.hpp>
#include <vma/vma.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace vma {
namespace {

/// The memory behind an `Allocation` and all views of it; freed with the last of them, or by
/// `free`.
class OwnedMemory {
 public:
  OwnedMemory(void* pointer, std::size_t bytes, CpuAccess cpu, std::shared_ptr<void> claim = {})
      : pointer_(pointer), bytes_(bytes), cpu_(cpu), claim_(std::move(claim)) {}
  /// Waits like cudaFree, without the GIL. A free that is refused is logged by the library.
  ~OwnedMemory() {
    if (pointer_ == nullptr) return;
    const Unlocked unlocked;
    try {
      vma::free(pointer_);
    } catch (const std::exception&) {  // The runtime was shut down, and has freed it.
    }
  }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;

  /// Throws: Error{unknown_pointer} once freed.
  void* pointer() const {
    if (pointer_ == nullptr) {
      throw Error(ErrorKind::unknown_pointer, "vmart.Allocation", "the allocation was freed");
    }
    return pointer_;
  }
  /// Throws: Error{invalid_argument} for a range that is not within the memory.
  std::byte* range(std::size_t offset, std::size_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) {
      throw Error(ErrorKind::invalid_argument, "vmart.Allocation",
                  std::to_string(bytes) + " bytes from offset " + std::to_string(offset) +
                      " on are not within the " + std::to_string(bytes_) + " of the allocation");
    }
    return static_cast<std::byte*>(pointer()) + offset;
  }
  std::size_t bytes() const noexcept { return bytes_; }
  bool freed() const noexcept { return pointer_ == nullptr; }
  CpuAccess cpu() const noexcept { return cpu_; }
  /// Of the CPU.
  std::shared_ptr<CpuView::Count> views() const noexcept { return views_; }
  /// Throws: Error{pinned} while a view of the CPU exists.
  void free() {
    CpuView::require_none(*views_, "vmart.Allocation.free");
    // Taken out with the GIL: while the memory goes, the address may be given to somebody else.
    void* const pointer = this->pointer();
    pointer_ = nullptr;
    try {
      const Unlocked unlocked;
      vma::free(pointer);
    } catch (...) {
      pointer_ = pointer;
      throw;
    }
  }

 private:
  void* pointer_;  // Null once freed.
  const std::size_t bytes_;
  const CpuAccess cpu_;
  const std::shared_ptr<void> claim_;  // Of `FaultsOrHooks`, for memory that faults.
  const std::shared_ptr<CpuView::Count> views_ = std::make_shared<CpuView::Count>();
};

using Shared = std::shared_ptr<OwnedMemory>;

/// What a consumer of DLPack or of the buffer protocol keeps: the memory, and for the CPU a view,
/// which prevents moves unless the CPU may fault.
struct Shown {
  Shared memory;
  std::optional<CpuView> view = std::nullopt;
  std::optional<HostView> pin = std::nullopt;  // Goes before the view that allows a free.

  void show_to_cpu() {
    void* const pointer = memory->pointer();
    view.emplace(memory->views());
    if (memory->cpu() == CpuAccess::fault) return;
    const Unlocked unlocked;
    pin.emplace(host_view(pointer, memory->bytes()));
  }
};

std::uintptr_t integer(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// `kind` is NumPy's letter, or the name of a type that ml_dtypes has.
nb::dlpack::dtype dtype_of(const std::string& kind, std::size_t bits) {
  using Code = nb::dlpack::dtype_code;
  static constexpr std::pair<std::string_view, Code> codes[] = {
      {"i", Code::Int},
      {"u", Code::UInt},
      {"f", Code::Float},
      {"c", Code::Complex},
      {"b", Code::Bool},
      {"bfloat16", Code::Bfloat},
      {"float8_e3m4", Code::Float8_E3M4},
      {"float8_e4m3", Code::Float8_E4M3},
      {"float8_e4m3fn", Code::Float8_E4M3FN},
      {"float8_e4m3fnuz", Code::Float8_E4M3FNUZ},
      {"float8_e4m3b11fnuz", Code::Float8_E4M3B11FNUZ},
      {"float8_e5m2", Code::Float8_E5M2},
      {"float8_e5m2fnuz", Code::Float8_E5M2FNUZ},
      {"float8_e8m0fnu", Code::Float8_E8M0FNU},
  };
  for (const auto& [name, code] : codes) {
    if (name == kind) return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  }
  throw Error(ErrorKind::invalid_argument, "vmart.Array",
              "elements of kind \"" + kind + "\" have no equivalent in DLPack");
}

/// SIZE_MAX if it is more.
std::size_t bytes_of(const std::vector<std::size_t>& shape, std::size_t item_bytes) {
  std::size_t bytes = item_bytes;
  for (const std::size_t count : shape) {
    if (__builtin_mul_overflow(bytes, count, &bytes)) return SIZE_MAX;
  }
  return bytes;
}

/// An array over the memory, whose consumer keeps it alive. `gpu` is the GPU that frameworks are
/// told; none: the CPU, and the memory does not move while the array exists.
nb::object make_array(const Shared& memory, std::size_t offset,
                      const std::vector<std::size_t>& shape, const std::string& kind,
                      std::size_t bits, std::optional<int> gpu) {
  void* const begin = memory->range(offset, bytes_of(shape, bits / 8));
  auto shown = std::make_unique<Shown>(Shown{memory});
  if (!gpu) shown->show_to_cpu();
  Shown* const kept = shown.release();
  const nb::capsule owner(kept, [](void* kept) noexcept { delete static_cast<Shown*>(kept); });
  const auto dtype = dtype_of(kind, bits);
  if (gpu) {
    return nb::cast(nb::ndarray<nb::array_api>(begin, shape.size(), shape.data(), owner, nullptr,
                                               dtype, nb::device::cuda::value, *gpu));
  }
  return nb::cast(nb::ndarray<nb::numpy>(begin, shape.size(), shape.data(), owner, nullptr, dtype,
                                         nb::device::cpu::value, 0));
}

Shared allocate(std::size_t bytes, std::optional<Place> at, const std::vector<Place>& readers,
                AllocOptions options) {
  std::shared_ptr<void> claim;
  if (options.cpu_access == CpuAccess::fault) {
    claim = FaultsOrHooks::claim(FaultsOrHooks::Kind::faults, "vmart.alloc");
  }
  void* const pointer = [&] {
    if (!at && !readers.empty()) {
      throw Error(ErrorKind::invalid_argument, "vmart.alloc", "readers need a place: give `at`");
    }
    if (!at) return vma::alloc(bytes, options);
    return runtime().alloc(bytes, *at, readers, options);
  }();
  return std::make_shared<OwnedMemory>(pointer, bytes, options.cpu_access, std::move(claim));
}

/// The bytes of an object with the buffer protocol, while this exists. Needs the GIL.
class Buffer {
 public:
  /// Throws: what Python raises for an object that does not have what `flags` ask for.
  Buffer(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, flags) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_;
};

void read_into(const Shared& memory, std::size_t offset, nb::object out) {
  const Buffer buffer(out, PyBUF_CONTIG);
  const std::byte* const from = memory->range(offset, buffer.bytes().size());
  const Unlocked unlocked;
  vma::read(from, buffer.bytes());
}

void write_from(const Shared& memory, std::size_t offset, nb::object source) {
  const Buffer buffer(source, PyBUF_CONTIG_RO);
  std::byte* const to = memory->range(offset, buffer.bytes().size());
  const Unlocked unlocked;
  vma::write(to, buffer.bytes());
}

/// `Allocation` in Python.
struct PyAllocation {
  Shared memory;
};

int get_buffer(PyObject* object, Py_buffer* buffer, int flags) noexcept try {
  const Shared memory = nb::inst_ptr<PyAllocation>(object)->memory;
  void* const pointer = memory->pointer();
  auto shown = std::make_unique<Shown>(Shown{memory});
  shown->show_to_cpu();
  const int result = PyBuffer_FillInfo(buffer, object, pointer,
                                       static_cast<Py_ssize_t>(memory->bytes()), 0, flags);
  if (result == 0) buffer->internal = shown.release();
  return result;
} catch (const std::exception& error) {
  buffer->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, error.what());
  return -1;
}

void release_buffer(PyObject*, Py_buffer* buffer) noexcept {
  delete static_cast<Shown*>(buffer->internal);
}

PyType_Slot buffer_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr},
};

void bind_making(nb::module_& module) {
  module.def(
      "alloc",
      [](std::size_t nbytes, std::optional<Place> at, const std::vector<Place>& readers,
         const std::string& tag, std::size_t chunk_bytes, bool zeroed, bool movable,
         bool shared_atomics, bool exportable, bool pool, bool cpu_faults) {
        AllocOptions options;
        options.chunk_bytes = chunk_bytes;
        options.tag = tag;
        options.zeroed = zeroed;
        options.movable = movable;
        options.shared_atomics = shared_atomics;
        options.exportable = exportable;
        options.pool = pool;
        options.cpu_access = cpu_faults ? CpuAccess::fault : CpuAccess::view;
        const Unlocked unlocked;
        return PyAllocation{allocate(nbytes, at, readers, std::move(options))};
      },
      nb::arg("nbytes"), nb::arg("at") = nb::none(), nb::arg("readers") = std::vector<Place>(),
      nb::kw_only(), nb::arg("tag") = "", nb::arg("chunk_bytes") = 0, nb::arg("zeroed") = false,
      nb::arg("movable") = true, nb::arg("shared_atomics") = false, nb::arg("exportable") = false,
      nb::arg("pool") = false, nb::arg("cpu_faults") = false);
  module.def(
      "import_allocation",
      [](const std::string& path) {
        const Unlocked unlocked;
        void* const pointer = import_allocation(path);
        return PyAllocation{
            std::make_shared<OwnedMemory>(pointer, runtime().size(pointer), CpuAccess::view)};
      },
      nb::arg("path"));
}

}  // namespace

void bind_allocations(nb::module_& module) {
  nb::class_<PyAllocation>(module, "Allocation", nb::type_slots(buffer_slots))
      .def("__repr__",
           [](nb::handle self) {
             return nb::borrow<nb::str>(
                 nb::module_::import_("vmart.memory").attr("allocation_text")(self));
           })
      .def_prop_ro("pointer",
                   [](const PyAllocation& self) { return integer(self.memory->pointer()); })
      .def_prop_ro("nbytes", [](const PyAllocation& self) { return self.memory->bytes(); })
      .def_prop_ro("freed", [](const PyAllocation& self) { return self.memory->freed(); })
      .def(
          "free", [](const PyAllocation& self) { self.memory->free(); },
          "Gives the memory back now. Raises Pinned while the CPU sees it. Waits like cudaFree.")
      .def(
          "read_into",
          [](const PyAllocation& self, nb::object out, nb::object offset) {
            constexpr const char* call = "vmart.Allocation.read_into";
            read_into(self.memory, size_of(offset, "offset", call), std::move(out));
          },
          nb::arg("out").none(), nb::arg("offset").none() = 0,
          nb::sig("def read_into(self, out: object, offset: int | str = 0) -> None"),
          "Copies bytes from the offset on into a buffer, from any place. Blocks, without the GIL.")
      .def(
          "write",
          [](const PyAllocation& self, nb::object source, nb::object offset) {
            constexpr const char* call = "vmart.Allocation.write";
            write_from(self.memory, size_of(offset, "offset", call), std::move(source));
          },
          nb::arg("source").none(), nb::arg("offset").none() = 0,
          nb::sig("def write(self, source: object, offset: int | str = 0) -> None"),
          "Copies the bytes of a buffer to the offset, at any place. Blocks, without the GIL.")
      .def(
          "array",
          [](const PyAllocation& self, const std::vector<std::size_t>& shape,
             const std::string& kind, std::size_t bits, std::size_t offset,
             std::optional<int> gpu) {
            return make_array(self.memory, offset, shape, kind, bits, gpu);
          },
          nb::arg("shape"), nb::arg("kind"), nb::arg("bits"), nb::arg("offset") = 0,
          nb::arg("gpu") = nb::none());
  bind_making(module);
}

}  // namespace vma
