// The C calls for memory at addresses of the caller.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"

#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <cstddef>
#include <memory>
#include <string>

using vma::at_boundary;
using vma::require_argument;

struct vmart_backing {
  std::shared_ptr<vma::Backing> backing;
};

namespace {

constexpr std::size_t backing_options_bytes_min = offsetof(vmart_backing_options, site);

/// Calls `body` with the backings of the runtime.
template <typename Body>
vmart_status with_backings(const char* call, Body&& body) noexcept {
  return at_boundary([&] {
    const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
    body(entry->backings);
  });
}

}  // namespace

vmart_status vmart_backing_create(size_t size_bytes, vmart_place at,
                                  const vmart_backing_options* options, vmart_backing** out) {
  constexpr const char* call = "vmart_backing_create";
  return with_backings(call, [&](vma::Backings& backings) {
    require_argument(out, call, "out");
    vmart_backing_options known{};
    if (options != nullptr)
      known = vma::known_part(options, backing_options_bytes_min, sizeof *options, call);
    const vma::ExportTypes needs{known.descriptor != 0, known.fabric != 0, known.rdma != 0};
    auto made = std::make_unique<vmart_backing>();
    made->backing = backings.create(size_bytes, vma::to_place(at, call), needs,
                                    known.tag != nullptr ? known.tag : "", known.make_room != 0,
                                    known.site != nullptr ? known.site : "");
    *out = made.release();
  });
}

vmart_status vmart_backing_map(vmart_backing* backing, void* address) {
  constexpr const char* call = "vmart_backing_map";
  return with_backings(call, [&](vma::Backings& backings) {
    require_argument(backing, call, "backing");
    require_argument(address, call, "address");
    backings.map(*backing->backing, vma::address_of(address));
  });
}

vmart_status vmart_backing_unmap(vmart_backing* backing) {
  constexpr const char* call = "vmart_backing_unmap";
  return with_backings(call, [&](vma::Backings& backings) {
    require_argument(backing, call, "backing");
    backings.unmap(*backing->backing);
  });
}

vmart_status vmart_backing_share(vmart_backing* backing) {
  constexpr const char* call = "vmart_backing_share";
  return with_backings(call, [&](vma::Backings& backings) {
    require_argument(backing, call, "backing");
    backings.share(*backing->backing);
  });
}

vmart_status vmart_backing_release(vmart_backing* backing) {
  if (backing == nullptr) return VMART_OK;
  return with_backings("vmart_backing_release", [&](vma::Backings& backings) {
    backings.release(*backing->backing);
    delete backing;
  });
}

vmart_status vmart_backing_note_passed(uint64_t size_bytes) {
  return with_backings("vmart_backing_note_passed",
                       [&](vma::Backings& backings) { backings.note_passed(size_bytes); });
}
