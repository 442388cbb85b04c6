#include "migrate/moves/group_reservation.hpp"

#include "base/process_exit.hpp"
#include "memory/move_claim.hpp"
#include "migrate/migration/target_reservation.hpp"

#include <chrono>
#include <utility>

namespace vma {
namespace {

constexpr const char* call = "vma::migrate_async";

class JointTasks final : public JointMoves {
 public:
  JointTasks(Clock& clock, std::span<const std::shared_ptr<MigrationTask>> tasks)
      : clock_(clock), tasks_(tasks) {}

  std::size_t count() const noexcept override { return tasks_.size(); }
  RequestedRange wanted(std::size_t which) const override {
    const MigrationTask& task = *tasks_[which];
    return {task.allocation(), task.range, task.to};
  }
  ReservedTargets& targets(std::size_t which) noexcept override { return tasks_[which]->reserved; }
  void with_claim(std::size_t which, const std::function<void()>& body) override {
    constexpr std::chrono::milliseconds look_period(1);
    MigrationTask& task = *tasks_[which];
    const std::shared_ptr<Allocation> allocation = task.allocation();
    while (true) {
      ProcessExit::hold_back();
      if (task.cancelled() || allocation->being_freed) {
        throw Error(ErrorKind::cancelled, call,
                    task.cancelled() ? "before it began"
                                     : "before it began, because the memory is being freed");
      }
      if (const MoveClaim claim = MoveClaim::try_take(allocation)) return body();
      task.pause_until(clock_.now() + look_period);
    }
  }
  void refuse(std::size_t which, std::exception_ptr why) noexcept override {
    tasks_[which]->refusal = std::move(why);
  }

 private:
  Clock& clock_;
  const std::span<const std::shared_ptr<MigrationTask>> tasks_;
};

}  // namespace

void reserve_targets(const MoveParts& parts,
                     std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept {
  JointTasks moves(parts.memory.driver().clock(), tasks);
  const MigrationTask& first = *tasks.front();
  TargetReservation(parts, first.options, first.terms, call).make(moves);
}

}  // namespace vma
