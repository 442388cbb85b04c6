// The C calls that move several allocations at once.
#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"

#include "runtime/moving.hpp"

#include <vma/vma.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

using vma::at_boundary;
using vma::options_of;
using vma::require_argument;

struct vmart_migration_group {
  vma::MigrationGroup group;
};

namespace {

// That of the first version, without padding at the end.
constexpr std::size_t request_bytes_min = 40;
static_assert(offsetof(vmart_move_request, to) + sizeof(vmart_place) == request_bytes_min);

/// Throws: Error, which names the request.
std::vector<vma::MoveRequest> requests_of(const vmart_move_request* first, std::size_t count,
                                          const char* call) {
  std::vector<vma::MoveRequest> requests;
  const vma::GivenArray array(first, count, request_bytes_min, call, "requests");
  requests.reserve(count);
  for (std::size_t which = 0; which < count; ++which) {
    vma::for_request(which, call, [&] {
      const vmart_move_request& given = *array.at(which);
      vma::require_zeros_behind(&given, sizeof given, given.size_bytes, call, "requests");
      require_argument(given.pointer, call, "pointer");
      requests.push_back({given.pointer, vma::to_place(given.to, call), given.offset, given.bytes});
    });
  }
  return requests;
}

/// Where a caller wants the reports of a group: both may be null.
class GivenReports {
 public:
  /// Throws: Error{invalid_argument}.
  GivenReports(vmart_migration_report* total, vmart_migration_report* each, std::size_t count,
               const char* call)
      : total_(total),
        each_(each, each == nullptr ? 0 : count, vma::report_bytes_min, call, "reports") {
    if (total != nullptr) vma::require_report(total, call, "total");
  }
  void fill(const vma::GroupReport& group, vmart_status status) const noexcept {
    if (total_ != nullptr) vma::fill(total_, group.total, status);
    for (std::size_t which = 0; which < each_.count(); ++which) {
      const auto& [request, report, error] = group.requests[which];
      vma::fill(each_.at(which), report, error ? vma::to_status(error->kind()) : VMART_OK);
    }
  }

 private:
  vmart_migration_report* const total_;
  const vma::GivenArray<vmart_migration_report> each_;
};

}  // namespace

vmart_status vmart_migrate_many(const vmart_move_request* requests, size_t count,
                                const vmart_migrate_options* options, vmart_migration_report* total,
                                vmart_migration_report* reports) {
  constexpr const char* call = "vmart_migrate_many";
  return at_boundary([&] {
    const std::vector<vma::MoveRequest> wanted = requests_of(requests, count, call);
    const vma::MigrateOptions how = options_of(options, call);
    const GivenReports out(total, reports, count, call);
    try {
      out.fill(vma::migrate(wanted, how), VMART_OK);
    } catch (const vma::Error& error) {
      if (error.group() != nullptr) out.fill(*error.group(), vma::to_status(error.kind()));
      throw;
    }
  });
}

vmart_status vmart_migrate_many_async(const vmart_move_request* requests, size_t count,
                                      const vmart_migrate_options* options,
                                      vmart_migration_group** out) {
  constexpr const char* call = "vmart_migrate_many_async";
  return at_boundary([&] {
    require_argument(out, call, "out");
    const std::vector<vma::MoveRequest> wanted = requests_of(requests, count, call);
    // Allocated first, because migrations that have begun must not be lost.
    auto handle = std::make_unique<vmart_migration_group>();
    handle->group = vma::migrate_async(wanted, options_of(options, call));
    *out = handle.release();
  });
}

vmart_status vmart_migration_group_wait(vmart_migration_group* group) {
  return at_boundary([&] {
    require_argument(group, "vmart_migration_group_wait", "group");
    group->group.wait();
  });
}

vmart_status vmart_migration_group_wait_for(vmart_migration_group* group, int64_t limit_ns,
                                            int* out_done) {
  return at_boundary([&] {
    require_argument(group, "vmart_migration_group_wait_for", "group");
    require_argument(out_done, "vmart_migration_group_wait_for", "out_done");
    const std::chrono::nanoseconds limit(std::max<int64_t>(limit_ns, 0));
    *out_done = group->group.wait_for(limit) ? 1 : 0;
  });
}

vmart_status vmart_migration_group_done(vmart_migration_group* group, int* out_done) {
  return at_boundary([&] {
    require_argument(group, "vmart_migration_group_done", "group");
    require_argument(out_done, "vmart_migration_group_done", "out_done");
    *out_done = group->group.done() ? 1 : 0;
  });
}

vmart_status vmart_migration_group_cancel(vmart_migration_group* group) {
  return at_boundary([&] {
    require_argument(group, "vmart_migration_group_cancel", "group");
    group->group.cancel();
  });
}

vmart_status vmart_migration_group_report_get(vmart_migration_group* group,
                                              vmart_migration_report* total,
                                              vmart_migration_report* reports, size_t count) {
  constexpr const char* call = "vmart_migration_group_report_get";
  return at_boundary([&] {
    require_argument(group, call, "group");
    const std::size_t size = group->group.size();
    if (reports != nullptr && count != size) {
      throw vma::Error(vma::ErrorKind::invalid_argument, call,
                       fmt::format("count is {}; the group has {} requests", count, size));
    }
    const GivenReports out(total, reports, count, call);
    const vmart_status status =
        vma::status_of(group->group.error());  // First: with it, the reports are the last.
    out.fill(group->group.report(), status);
  });
}

vmart_status vmart_migration_group_request(vmart_migration_group* group, size_t which,
                                           vmart_migration** out) {
  constexpr const char* call = "vmart_migration_group_request";
  return at_boundary([&] {
    require_argument(group, call, "group");
    require_argument(out, call, "out");
    *out = std::make_unique<vmart_migration>(group->group.request(which)).release();
  });
}

void vmart_migration_group_release(vmart_migration_group* group) {
  at_boundary([&] { delete group; });
}
