// The C calls for exports with names of fixed size.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"
#include "abi/exported_handle.hpp"

#include "runtime/exporting.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <cstdint>
#include <memory>

using vma::at_boundary;
using vma::require_argument;

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
    *out = vma::import_allocation(vma::path_of(known, call), vma::import_within(limit_ns));
  });
}
