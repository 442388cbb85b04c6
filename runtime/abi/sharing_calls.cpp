// The C calls for memory of several processes.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"
#include "runtime/exports.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

using vma::at_boundary;
using vma::require_argument;

struct vmart_exported {
  vma::ExportedAllocation exported;
};

struct vmart_exported_pool {
  vma::ExportedPool exported;
};

namespace {

vma::ExportOptions export_at(const char* path) {
  vma::ExportOptions options;
  if (path != nullptr) options.path = path;
  return options;
}

/// Zero: as long as imports wait unless told otherwise.
vma::ImportOptions import_within(std::int64_t limit_ns) {
  vma::ImportOptions options;
  if (limit_ns == 0) return options;
  options.limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(limit_ns));
  return options;
}

}  // namespace

vmart_status vmart_exported_create(void* pointer, const char* path, vmart_exported** out) {
  constexpr const char* call = "vmart_exported_create";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    *out = std::make_unique<vmart_exported>(vma::export_allocation(pointer, export_at(path)))
               .release();
  });
}

const char* vmart_exported_path(const vmart_exported* exported) {
  return exported == nullptr ? nullptr : exported->exported.path().c_str();
}

vmart_status vmart_exported_importers(const vmart_exported* exported, size_t* out) {
  constexpr const char* call = "vmart_exported_importers";
  return at_boundary([&] {
    require_argument(exported, call, "exported");
    require_argument(out, call, "out");
    *out = exported->exported.importers().size();
  });
}

void vmart_exported_release(vmart_exported* exported) {
  at_boundary([&] { delete exported; });
}

vmart_status vmart_import(const char* path, int64_t limit_ns, void** out) {
  constexpr const char* call = "vmart_import";
  return at_boundary([&] {
    require_argument(path, call, "path");
    require_argument(out, call, "out");
    *out = vma::import_allocation(path, import_within(limit_ns));
  });
}

vmart_status vmart_exported_pool_create(const vmart_pool* pool, const char* path,
                                        vmart_exported_pool** out) {
  constexpr const char* call = "vmart_exported_pool_create";
  return at_boundary([&] {
    require_argument(pool, call, "pool");
    require_argument(out, call, "out");
    *out = std::make_unique<vmart_exported_pool>(vma::export_pool(pool->pool, export_at(path)))
               .release();
  });
}

const char* vmart_exported_pool_path(const vmart_exported_pool* exported) {
  return exported == nullptr ? nullptr : exported->exported.path().c_str();
}

vmart_status vmart_exported_pool_pointer(const vmart_exported_pool* exported, void* block,
                                         vmart_exported_pointer* out) {
  constexpr const char* call = "vmart_exported_pool_pointer";
  return at_boundary([&] {
    require_argument(exported, call, "exported");
    require_argument(block, call, "block");
    require_argument(out, call, "out");
    const vma::ExportedPointer pointer = exported->exported.pointer(block);
    *out = {pointer.segment, pointer.offset, pointer.bytes};
  });
}

void vmart_exported_pool_release(vmart_exported_pool* exported) {
  at_boundary([&] { delete exported; });
}

vmart_status vmart_import_pointer(const char* path, const vmart_exported_pointer* pointer,
                                  int64_t limit_ns, void** out) {
  constexpr const char* call = "vmart_import_pointer";
  return at_boundary([&] {
    require_argument(path, call, "path");
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    *out = vma::import_pointer(path, {pointer->segment, pointer->offset, pointer->bytes},
                               import_within(limit_ns));
  });
}

// Exports with names of fixed size.
vmart_status vmart_ipc_export(void* pointer, vmart_exported** out, vmart_ipc_name* out_name) {
  constexpr const char* call = "vmart_ipc_export";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    require_argument(out_name, call, "out_name");
    vma::make_exportable(parts_of(vma::runtime()), pointer, call);
    const vma::ExportName name = vma::new_export_name(call);
    vma::ExportOptions options;
    options.path = vma::new_path_of(name);
    options.importers_max = 1024;  // The driver has no limit.
    *out = std::make_unique<vmart_exported>(vma::export_allocation(pointer, options)).release();
    *out_name = {name.user, name.process, name.pid_namespace, 0, name.key};
  });
}

vmart_status vmart_ipc_import(const vmart_ipc_name* name, int64_t limit_ns, void** out) {
  constexpr const char* call = "vmart_ipc_import";
  return at_boundary([&] {
    require_argument(name, call, "name");
    require_argument(out, call, "out");
    const vma::ExportName known{name->user, name->process, name->pid_namespace, name->key};
    *out = vma::import_allocation(vma::path_of(known, call), import_within(limit_ns));
  });
}
