// The C calls for memory of several processes.
#include "abi/boundary.hpp"

#include <vma/vma.hpp>

#include <chrono>
#include <memory>

using vma::at_boundary;
using vma::require_argument;

struct vmart_exported {
  vma::ExportedAllocation exported;
};

vmart_status vmart_exported_create(void* pointer, const char* path, vmart_exported** out) {
  constexpr const char* call = "vmart_exported_create";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    vma::ExportOptions options;
    if (path != nullptr) options.path = path;
    *out = std::make_unique<vmart_exported>(vma::export_allocation(pointer, options)).release();
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
    vma::ImportOptions options;
    if (limit_ns != 0) {
      options.limit =
          std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(limit_ns));
    }
    *out = vma::import_allocation(path, options);
  });
}
