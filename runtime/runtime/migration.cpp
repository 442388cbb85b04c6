// The handles of migrations in the background.
#include <vma/error.hpp>
#include <vma/group.hpp>
#include <vma/migration.hpp>

#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_task.hpp"

#include <fmt/format.h>

#include <exception>
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

GroupTask& MigrationGroup::task() const {
  constexpr const char* call = "vma::MigrationGroup";
  if (!task_) throw Error(ErrorKind::invalid_argument, call, "it refers to no migrations");
  if (!task_->in_forked_child()) return *task_;
  throw Error(ErrorKind::driver_gone, call,
              "this is a forked child; the migrations continue only in the parent");
}

GroupReport MigrationGroup::wait() const {
  task().wait();
  if (const std::exception_ptr failure = task().error()) std::rethrow_exception(failure);
  return task().report();
}

bool MigrationGroup::wait_for(std::chrono::nanoseconds limit) const {
  return task().wait_for(limit);
}

bool MigrationGroup::done() const {
  return task().done();
}

void MigrationGroup::cancel() const {
  task().cancel();
}

GroupReport MigrationGroup::report() const {
  return task().report();
}

std::exception_ptr MigrationGroup::error() const {
  return task().error();
}

void MigrationGroup::on_done(std::function<void()> callback) const {
  if (!callback) throw Error(ErrorKind::invalid_argument, "vma::MigrationGroup", "no callback");
  task().on_done(std::move(callback));
}

std::size_t MigrationGroup::size() const {
  return task().tasks().size();
}

Migration MigrationGroup::request(std::size_t which) const {
  if (which < size()) return Migration(task().tasks()[which]);
  throw Error(ErrorKind::invalid_argument, "vma::MigrationGroup",
              fmt::format("there is no request {}; there are {}", which, size()));
}

}  // namespace v1
}  // namespace vma
