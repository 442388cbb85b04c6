#pragma once

#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/group_account.hpp"
#include "migrate/migration/migration_task.hpp"

#include <vma/group.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace vma {
inline namespace v1 {

/// Several migrations in the background that were asked for together, as a `MigrationGroup` sees
/// them: its requests, and the task of each. Immutable; any thread.
class GroupTask {
 public:
  /// `call` is the public call that errors name. Requires: a task for each request.
  GroupTask(const char* call, std::vector<MoveRequest> requests,
            std::vector<std::shared_ptr<MigrationTask>> tasks,
            std::shared_ptr<GroupAccount> account, std::shared_ptr<Callbacks> callbacks);

  /// As for a `MigrationTask`.
  bool in_forked_child() const noexcept;
  bool wait_for(std::chrono::nanoseconds limit) const;
  void wait() const;
  /// Blocks: until the program's progress callbacks for what has ended have returned.
  void await_progress() const { callbacks_->await_posted(); }
  bool done() const;
  void cancel() const noexcept;
  GroupReport report() const;
  /// Null while one of them runs, and if all have moved in full. Each caller gets its own.
  std::exception_ptr error() const;
  /// Throws: Error{busy} if there is no thread for it, std::bad_alloc; then it will not be called.
  void on_done(std::function<void()> callback) const;
  const std::vector<std::shared_ptr<MigrationTask>>& tasks() const noexcept { return tasks_; }

 private:
  const char* const call_;
  const std::vector<MoveRequest> requests_;
  const std::vector<std::shared_ptr<MigrationTask>> tasks_;
  const std::shared_ptr<GroupAccount> account_;
  const std::shared_ptr<Callbacks> callbacks_;
};

}  // namespace v1
}  // namespace vma
