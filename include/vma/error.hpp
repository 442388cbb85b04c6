#pragma once

#include <vma/export.hpp>
#include <vma/migration.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vma::inline v1 {

enum class ErrorKind {
  invalid_argument,
  unknown_pointer,
  unreachable,
  out_of_memory,
  busy,
  pinned,
  cancelled,
  poisoned,
  no_driver,
  driver_gone,
  driver_failure,
  unsupported,
  dropped,
  peer_failure,
  not_permitted,
};

struct GroupReport;

/// "out_of_memory" and so on.
VMART_EXPORT std::string_view to_string(ErrorKind kind) noexcept;

/// The only exception type of the library. `docs/reference/errors.md` lists which calls throw which
/// kind.
class VMART_EXPORT Error : public std::runtime_error {
 public:
  /// `call` is the public call or driver call that failed; `detail` gives the value and the reason.
  Error(ErrorKind kind, std::string call, const std::string& detail, int native = 0);

  ErrorKind kind() const noexcept { return kind_; }
  /// The call that failed: "vma::alloc", "cuMemCreate".
  const std::string& call() const noexcept { return *call_; }
  /// The driver's own code (a CUresult); 0 if no driver call failed.
  int native() const noexcept { return native_; }
  /// What a failed migration did; null for other errors. If it had several requests, this is their
  /// `GroupReport::total`.
  const MigrationReport* report() const noexcept { return report_.get(); }
  /// What each request of a failed migration of several did; null for other errors.
  const GroupReport* group() const noexcept { return group_.get(); }

  /// The same error with the report of the migration that it ended. Shares no text with other
  /// errors, so it may be passed to another thread.
  Error with_report(MigrationReport report) const;
  /// The same for a migration of several requests.
  Error with_group(GroupReport group) const;

 private:
  explicit Error(const Error& other, std::shared_ptr<const MigrationReport> report,
                 std::shared_ptr<const GroupReport> group);

  ErrorKind kind_;
  int native_;
  std::shared_ptr<const std::string> call_;  // Shared: copying an exception must not throw.
  std::shared_ptr<const MigrationReport> report_;
  std::shared_ptr<const GroupReport> group_;
};

}  // namespace vma::inline v1
