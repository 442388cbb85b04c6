#include "migrate/migration/migration_error.hpp"

#include "base/mapping_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>

namespace vma {
namespace {

bool lost_a_slot(const MigrationReport& report) noexcept {
  return std::ranges::any_of(report.failures,
                             [](const ChunkFailure& failure) { return failure.poisoned; });
}

[[noreturn]] void refuse(const Allocation& allocation, ErrorKind kind, const std::string& why,
                         const char* call) {
  throw Error(kind, call,
              fmt::format("the allocation at {:#x} {}", to_integer(allocation.begin()), why));
}

}  // namespace

Error migration_error(const Error& error, const MigrationReport& report,
                      const Allocation& allocation) {
  if (!lost_a_slot(report)) return error.with_report(report);
  return Error(ErrorKind::poisoned, error.call(),
               fmt::format("the allocation at {:#x} lost the mapping of a chunk; vma::read still "
                           "returns its bytes: {}",
                           to_integer(allocation.begin()), error.what()),
               error.native())
      .with_report(report);
}

MigrationErrors::MigrationErrors(const char* call)
    : call_(call),
      no_memory_(ErrorKind::out_of_memory, call,
                 "out of host memory while moving. Chunks that already moved stay at the target. "
                 "Free host memory and migrate again"),
      lost_slot_(ErrorKind::poisoned, call,
                 "the allocation lost the mapping of a chunk; vma::read still returns its bytes") {}

Error MigrationErrors::of(const std::exception_ptr& failure, const MigrationReport& report,
                          const Allocation& allocation) const noexcept {
  const Error& without_words = lost_a_slot(report) ? lost_slot_ : no_memory_;
  try {
    try {
      naming_mapping_limit(call_, [&] { std::rethrow_exception(failure); });
    } catch (const Error& error) {
      return migration_error(error, report, allocation);
    } catch (const std::bad_alloc&) {
      return without_words;
    } catch (const std::exception& error) {
      return migration_error(Error(ErrorKind::driver_failure, call_, error.what()), report,
                             allocation);
    }
  } catch (const std::exception&) {  // From formatting.
  }
  return without_words;
}

Outcome outcome_of_failure(const MigrationReport& report) noexcept {
  return report.chunks_moved == 0 ? Outcome::failed : Outcome::partly;
}

Outcome outcome_of(const Error& error, const MigrationReport& report) noexcept {
  if (error.kind() == ErrorKind::cancelled) return Outcome::cancelled;
  return outcome_of_failure(report);
}

void require_no_pin(const Allocation& allocation, const char* call) {
  const std::string why = allocation.why_pinned();
  if (!why.empty()) refuse(allocation, ErrorKind::pinned, why, call);
}

void require_not_kept(const Allocation& allocation, const char* call) {
  if (allocation.imported()) return require_no_pin(allocation, call);
  const std::string why = allocation.why_kept();
  if (!why.empty()) refuse(allocation, ErrorKind::pinned, why, call);
}

void require_importers_follow(const Allocation& allocation, Place to, const char* call) {
  const std::string why = allocation.importers().why_not_at(to);
  if (!why.empty()) refuse(allocation, ErrorKind::unreachable, why, call);
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
