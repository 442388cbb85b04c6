#include <vma/error.hpp>
#include <vma/migration.hpp>

#include "migrate/migration/migration_task.hpp"

#include <utility>

namespace vma {
inline namespace v1 {

MigrationTask& Migration::task() const {
  constexpr const char* call = "vma::Migration";
  if (!task_) throw Error(ErrorKind::invalid_argument, call, "it refers to no migration");
  if (!task_->in_forked_child()) return *task_;
  throw Error(ErrorKind::driver_gone, call,
              "this is a forked child; the migration continues only in the parent");
}

MigrationReport Migration::wait() const {
  task().wait();
  if (const std::exception_ptr failure = task().error()) std::rethrow_exception(failure);
  return task().report();
}

bool Migration::wait_for(std::chrono::nanoseconds limit) const {
  return task().wait_for(limit);
}

bool Migration::done() const {
  return task().done();
}

void Migration::cancel() const {
  task().cancel();
}

MigrationReport Migration::report() const {
  return task().report();
}

std::exception_ptr Migration::error() const {
  return task().error();
}

void Migration::on_done(std::function<void()> callback) const {
  if (!callback) throw Error(ErrorKind::invalid_argument, "vma::Migration", "no callback");
  task().on_done(std::move(callback));
}

}  // namespace v1
}  // namespace vma
