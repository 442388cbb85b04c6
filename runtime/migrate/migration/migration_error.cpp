#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace vma {
namespace {

[[noreturn]] void refuse(const Allocation& allocation, ErrorKind kind, const std::string& why,
                         const char* call) {
  throw Error(kind, call,
              fmt::format("the allocation at {:#x} {}", to_integer(allocation.begin()), why));
}

}  // namespace

Error migration_error(const Error& error, const MigrationReport& report,
                      const Allocation& allocation) {
  const bool poisoned = std::ranges::any_of(
      report.failures, [](const ChunkFailure& failure) { return failure.poisoned; });
  if (!poisoned) return error.with_report(report);
  return Error(ErrorKind::poisoned, error.call(),
               fmt::format("the allocation at {:#x} lost the mapping of a chunk; vma::read still "
                           "returns its bytes: {}",
                           to_integer(allocation.begin()), error.what()),
               error.native())
      .with_report(report);
}

void require_no_pin(const Allocation& allocation, const char* call) {
  const std::string why = allocation.why_pinned();
  if (!why.empty()) refuse(allocation, ErrorKind::pinned, why, call);
}

void require_no_loss(const Allocation& allocation, const char* call) {
  if (!allocation.poisoned()) return;
  refuse(allocation, ErrorKind::poisoned,
         "lost a slot to a failed move; vma::read serves its saved bytes", call);
}

void require_contents(const Allocation& allocation, SlotRange range, const char* call) {
  if (!allocation.any_dropped(range.first, range.end)) return;
  refuse(allocation, ErrorKind::dropped, "has no memory there until vma::resume of its tag", call);
}

}  // namespace vma
