#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {

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

}  // namespace vma
