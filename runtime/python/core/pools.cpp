#include "python/core/bindings.hpp"
#include "python/core/interpreter.hpp"

#include <vma/pool.hpp>
#include <vma/vma.hpp>

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace nb = nanobind;

namespace vma {
namespace {

Stream stream_of(std::uintptr_t handle) {
  return reinterpret_cast<Stream>(handle);
}

PoolOptions options_of(const std::string& tag, std::size_t release_threshold, std::size_t max_bytes,
                       std::size_t chunk_bytes, bool streams_last, bool exportable) {
  PoolOptions options;
  options.release_threshold = release_threshold;
  options.max_bytes = max_bytes;
  options.chunk_bytes = chunk_bytes;
  options.tag = tag;
  options.streams_last = streams_last;
  options.exportable = exportable;
  return options;
}

void bind_blocks(nb::class_<Pool>& pool) {
  pool.def(
          "allocate",
          [](const Pool& self, nb::object nbytes, nb::object stream, nb::object alignment) {
            constexpr const char* call = "vmart.Pool.allocate";
            const std::size_t size = size_of(nbytes, "nbytes", call);
            const std::size_t aligned = size_of(alignment, "alignment", call);
            const Stream order = stream_of(integer_of(stream, "stream", call));
            const Unlocked unlocked;
            return reinterpret_cast<std::uintptr_t>(self.allocate(size, order, aligned));
          },
          nb::arg("nbytes").none(), nb::arg("stream").none(), nb::arg("alignment").none() = 256,
          nb::sig(
              "def allocate(self, nbytes: int | str, stream: int, alignment: int = 256) -> int"),
          "Returns the address of a block for work that the stream does from now on.")
      .def(
          "deallocate",
          [](const Pool& self, nb::object pointer, nb::object stream) {
            constexpr const char* call = "vmart.Pool.deallocate";
            void* const block = reinterpret_cast<void*>(integer_of(pointer, "pointer", call));
            const Stream order = stream_of(integer_of(stream, "stream", call));
            const Unlocked unlocked;
            self.deallocate(block, order);
          },
          nb::arg("pointer").none(), nb::arg("stream").none(),
          nb::sig("def deallocate(self, pointer: int, stream: int) -> None"),
          "Frees a block after the work that is now enqueued on the stream. Does not block.")
      .def(
          "deallocate_now",
          [](const Pool& self, nb::object pointer) {
            constexpr const char* call = "vmart.Pool.deallocate_now";
            void* const block = reinterpret_cast<void*>(integer_of(pointer, "pointer", call));
            const Unlocked unlocked;
            self.deallocate_now(block);
          },
          nb::arg("pointer").none(), nb::sig("def deallocate_now(self, pointer: int) -> None"),
          "Frees a block that no work uses any more.")
      .def(
          "trim",
          [](const Pool& self, nb::object keep_bytes) {
            const std::size_t keep = size_of(keep_bytes, "keep_bytes", "vmart.Pool.trim");
            const Unlocked unlocked;
            return self.trim(keep);
          },
          nb::arg("keep_bytes").none() = 0,
          nb::sig("def trim(self, keep_bytes: int | str = 0) -> int"),
          "Gives empty memory back until no more than keep_bytes is held; returns the bytes.");
}

}  // namespace

void bind_pools(nb::module_& module) {
  const nb::call_guard<Unlocked> unlocked;
  nb::class_<PoolStats>(module, "PoolStats", "What a pool holds, in bytes.")
      .def("__repr__", &shown)
      .def_ro("reserved_bytes", &PoolStats::reserved_bytes)
      .def_ro("reserved_high_bytes", &PoolStats::reserved_high_bytes)
      .def_ro("used_bytes", &PoolStats::used_bytes)
      .def_ro("used_high_bytes", &PoolStats::used_high_bytes)
      .def_ro("pending_bytes", &PoolStats::pending_bytes);
  nb::class_<Pool> pool(
      module, "Pool",
      "Memory for many blocks, allocated and freed in the order of streams. Made by "
      "vmart.make_pool. Streams are integers: `cuda_stream` of PyTorch, `ptr` of CuPy.");
  bind_blocks(pool);
  pool.def("__repr__",
           [](nb::handle self) {
             return nb::borrow<nb::str>(
                 nb::module_::import_("vmart.memory").attr("pool_text")(self));
           })
      .def("synchronize", &Pool::synchronize, unlocked,
           "Waits for all work submitted earlier, so that all frees until now are complete.")
      .def("stats", &Pool::stats, unlocked, "What it holds now.")
      .def(
          "migrate",
          [](const Pool& self, Place to, const MigrateOptions& options) {
            return migrate(self, to, options);
          },
          nb::arg("to"), nb::arg("options"), unlocked)
      .def("destroy", &Pool::destroy, unlocked,
           "No more blocks can be allocated; the memory goes back with the last block.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"));
  module.def(
      "make_pool",
      [](Place at, const std::string& tag, std::size_t release_threshold, std::size_t max_bytes,
         std::size_t chunk_bytes, bool streams_last, bool exportable) {
        const PoolOptions options =
            options_of(tag, release_threshold, max_bytes, chunk_bytes, streams_last, exportable);
        const Unlocked unlocked;
        return make_pool(at, options);
      },
      nb::arg("at"), nb::kw_only(), nb::arg("tag") = "pool", nb::arg("release_threshold") = 0,
      nb::arg("max_bytes") = 0, nb::arg("chunk_bytes") = 0, nb::arg("streams_last") = false,
      nb::arg("exportable") = false);
  module.def(
      "default_pool", [](Place at) { return default_pool(at); }, nb::arg("at"), unlocked);
}

}  // namespace vma
