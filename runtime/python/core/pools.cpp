#include "python/core/bindings.hpp"

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

}  // namespace

void bind_pools(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<PoolStats>(module, "PoolStats", "What a pool holds, in bytes.")
      .def_ro("reserved_bytes", &PoolStats::reserved_bytes)
      .def_ro("reserved_high_bytes", &PoolStats::reserved_high_bytes)
      .def_ro("used_bytes", &PoolStats::used_bytes)
      .def_ro("used_high_bytes", &PoolStats::used_high_bytes)
      .def_ro("pending_bytes", &PoolStats::pending_bytes);
  nb::class_<Pool>(
      module, "Pool",
      "Memory for many blocks, allocated and freed in the order of streams. Made by "
      "vmart.make_pool. Streams are integers: `cuda_stream` of PyTorch, `ptr` of CuPy.")
      .def(
          "allocate",
          [](const Pool& self, std::size_t nbytes, std::uintptr_t stream, std::size_t alignment) {
            return reinterpret_cast<std::uintptr_t>(
                self.allocate(nbytes, stream_of(stream), alignment));
          },
          nb::arg("nbytes"), nb::arg("stream"), nb::arg("alignment") = 256, unlocked,
          "Returns the address of a block for work that the stream does from now on.")
      .def(
          "deallocate",
          [](const Pool& self, std::uintptr_t pointer, std::uintptr_t stream) {
            self.deallocate(reinterpret_cast<void*>(pointer), stream_of(stream));
          },
          nb::arg("pointer"), nb::arg("stream"), unlocked,
          "Frees a block after the work that is now enqueued on the stream. Does not block.")
      .def(
          "deallocate_now",
          [](const Pool& self, std::uintptr_t pointer) {
            self.deallocate_now(reinterpret_cast<void*>(pointer));
          },
          nb::arg("pointer"), unlocked, "Frees a block that no work uses any more.")
      .def("trim", &Pool::trim, nb::arg("keep_bytes") = 0, unlocked,
           "Gives empty memory back until no more than keep_bytes is held; returns the bytes.")
      .def("synchronize", &Pool::synchronize, unlocked,
           "Waits for all work submitted earlier, so that all frees until now are complete.")
      .def("stats", &Pool::stats, unlocked)
      .def(
          "migrate",
          [](const Pool& self, Location to, const MigrateOptions& options) {
            return migrate(self, to, options);
          },
          nb::arg("to"), nb::arg("options"), unlocked)
      .def("destroy", &Pool::destroy, unlocked,
           "No more blocks can be allocated; the memory goes back with the last block.")
      .def(nb::self == nb::self);
  module.def(
      "make_pool",
      [](Location at, const std::string& tag, std::size_t release_threshold, std::size_t max_bytes,
         std::size_t chunk_bytes, bool streams_last, bool exportable) {
        const PoolOptions options =
            options_of(tag, release_threshold, max_bytes, chunk_bytes, streams_last, exportable);
        const nb::gil_scoped_release release;
        return make_pool(at, options);
      },
      nb::arg("at"), nb::kw_only(), nb::arg("tag") = "pool", nb::arg("release_threshold") = 0,
      nb::arg("max_bytes") = 0, nb::arg("chunk_bytes") = 0, nb::arg("streams_last") = false,
      nb::arg("exportable") = false);
  module.def(
      "default_pool", [](Location at) { return default_pool(at); }, nb::arg("at"), unlocked);
}

}  // namespace vma
