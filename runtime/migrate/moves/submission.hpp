#pragma once

#include "migrate/migration/group_account.hpp"
#include "migrate/migration/move_terms.hpp"
#include "migrate/migration/requested_range.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <memory>
#include <optional>

namespace vma {

/// One migration that is to run in the background.
struct Submission {
  RequestedRange what;
  MigrateOptions options;
  MoveTerms terms;
  std::shared_ptr<GroupAccount> group;  ///< That it is one of; null if it is none.
  /// It may not move: its task has ended in this error from the beginning.
  std::optional<Error> refusal;
};

}  // namespace vma
