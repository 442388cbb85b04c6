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
};

/// "out_of_memory" and so on.
VMART_EXPORT std::string_view to_string(ErrorKind kind) noexcept;

/// The one exception type of the library. `docs/reference/errors.md` lists what throws which kind.
class VMART_EXPORT Error : public std::runtime_error {
 public:
  /// `call` names the public call or the driver call that refused, `detail` the value and why.
  Error(ErrorKind kind, std::string call, const std::string& detail, int native = 0);

  ErrorKind kind() const noexcept { return kind_; }
  /// The call that refused: "vma::alloc", "cuMemCreate".
  const std::string& call() const noexcept { return *call_; }
  /// The driver's own code (a CUresult), 0 where no driver call failed.
  int native() const noexcept { return native_; }
  /// What a failed migration did, null for other errors.
  const MigrationReport* report() const noexcept { return report_.get(); }

  /// The same error with the report of the migration that it ended. Shares its text with no other,
  /// so it may go to another thread.
  Error with_report(MigrationReport report) const;

 private:
  Error(const Error& other, MigrationReport report);

  ErrorKind kind_;
  int native_;
  std::shared_ptr<const std::string> call_;  // Shared: copying an exception must not throw.
  std::shared_ptr<const MigrationReport> report_;
};

}  // namespace vma::inline v1
