// The calls that move several allocations at once.
#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/move_requests.hpp"
#include "runtime/runtime_parts.hpp"

#include "migrate/migration/group_account.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
inline namespace v1 {

GroupReport Runtime::migrate(std::span<const MoveRequest> requests, const MigrateOptions& options) {
  constexpr const char* call = "vma::migrate";
  const RuntimeParts::Entry entry(*parts_, call);
  check_held_move(options, call);
  const std::vector<RequestedRange> ranges =
      resolve_requests(requests, entry->memory, entry->topology, call);
  GroupReport report = report_of(requests);
  Callbacks& callbacks = entry->mover.callbacks();
  if (options.on_progress) callbacks.start();
  const auto account = std::make_shared<GroupAccount>(parts_->driver->clock(), progress_of(ranges),
                                                      options.on_progress);
  std::vector<RangeResult> results = entry->mover.move_all(ranges, options, {}, *account);
  // The callback may refer to what the caller has on its stack.
  if (options.on_progress) callbacks.await_posted();
  for (std::size_t i = 0; i < results.size(); ++i) {
    report.requests[i].report = std::move(results[i].report);
    report.requests[i].error = std::move(results[i].error);
  }
  report.total = account->total(report.requests);
  if (report.failed() > 0) throw group_error(call, std::move(report));
  return report;
}

}  // namespace v1
}  // namespace vma
