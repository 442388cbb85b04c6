#pragma once

#include "sim/sim_clock.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vma {

struct SteppedOptions {
  std::uint64_t seed = 1;
  /// One in this many `yield`s looks for another thread; 1 means every one. The others cost no
  /// switch.
  unsigned yields_per_switch = 4;
};

/// Runs its threads one at a time, in an order determined by a seed alone, in virtual time.
///
/// Its members are the threads that it spawned and the one inside `run`. When no member can run,
/// time advances to the nearest deadline; a `yield` advances it by nanoseconds, so that polling
/// loops do not stop it. Between two `run`s, members that nobody waits for do not run. If no member
/// can run and there is no deadline, the wait of the thread inside `run` throws
/// Error{driver_failure} "deadlock", which names every member and what it waits for.
class SteppedExecutor final : public SteppedThreads {
 public:
  explicit SteppedExecutor(const SteppedOptions& options = {});
  /// Requires: every spawned task was joined.
  ~SteppedExecutor() override;

  /// The member that runs `body` is called "main".
  void run(const std::function<void()>& body) override;

  /// Called by a member, or from outside while nothing runs; the thread first runs inside a `run`.
  /// A join from outside is a `run` of its own.
  std::unique_ptr<Task> spawn(const std::string& name, std::function<void()> body) override;

  void yield() override;
  bool wait(const std::function<bool()>& ready, TimePoint deadline) override;

  void give_way() override;
  TimePoint now() const noexcept override { return now_; }
  void sleep(TimePoint duration) override;

  /// A hash of all choices so far: equal for equal runs.
  std::uint64_t interleaving_hash() const noexcept { return hash_; }
  std::uint64_t choices() const noexcept { return choices_; }
  std::uint64_t random() override { return random_(); }

 private:
  struct Member;
  class MemberTask;

  Member* choose();
  bool refresh(Member& member) const;
  void hand_over(Member& from);
  void pass_to(Member& member);
  void move_time_to(TimePoint time);
  std::string dead_lock_report() const;
  void retire(Member& member);

  // The following is used only by the member with the baton, or by the caller while nothing runs.
  std::vector<std::shared_ptr<Member>> members_;
  Member* main_ = nullptr;
  std::mt19937_64 random_;
  const unsigned yields_per_switch_;
  TimePoint now_{0};
  unsigned idle_yields_ = 0;  // In a row, without waking anybody.
  std::uint64_t hash_ = 0;
  std::uint64_t choices_ = 0;
  std::uint64_t spawned_ = 0;
  ThreadedExecutor threads_;
};

}  // namespace vma
