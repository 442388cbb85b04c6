#pragma once

#include "control/control_target.hpp"
#include "control/event_feed.hpp"

#include <boost/json/value.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vma {

/// A runtime with two allocations that records the requests it receives. Used by one thread, except
/// `calls` and `start_loads`, which any thread may call.
class FakeControlTarget : public ControlTarget {
 public:
  static constexpr std::uint64_t first_address = 0x7f0000000000;
  static constexpr std::uint64_t many_address = 0x7f1000000000;
  static constexpr std::size_t many_extents = 1200;

  ControlStatus status() override;
  std::vector<ControlAllocation> allocations(std::uint64_t from, std::size_t most) override;
  ControlPage select(const std::vector<Selector>& what, std::uint64_t from,
                     std::size_t most) override;
  ControlAllocation allocation(std::uint64_t address) override;
  ControlPrediction predict(const ControlMove& move) override;
  ControlStarted start_move(const ControlMove& move) override;
  std::uint64_t start_drain(Place at) override;
  std::uint64_t start_capacity(Place at, std::uint64_t bytes) override;
  std::string policy() override { return policy_; }
  std::vector<std::string> known_policies() override { return {"stay", "cost_benefit"}; }
  void set_policy(const std::string& text) override;
  void pause() override;
  void resume() override;
  std::uint64_t start_step() override;
  std::vector<std::string> explain_now(std::uint64_t address) override;
  std::vector<ControlDecision> explain(std::uint64_t address, std::size_t most) override;
  ControlEvents events(std::uint64_t since, std::size_t most) override;
  ControlStats stats() override;
  /// The next `answers` answers of `stats` come as if NVML had not been asked yet.
  void start_loads(int answers) { answers_starting_ = answers; }

  /// The requests it received, in order: "move 0x7f0000000000 to gpu(1)".
  std::vector<std::string> calls() const;
  /// What the last move named.
  const std::vector<Selector>& last_move() const { return last_move_; }
  EventRing& ring() { return ring_; }
  /// An event all of whose members are in answers.
  void add_full_event();

 private:
  std::uint64_t start(const std::string& call, bool fails);
  mutable std::mutex mutex_;  // Guards `calls_`.
  std::vector<std::string> calls_;
  std::vector<Selector> last_move_;
  std::string policy_ = "stay";
  bool paused_ = false;
  std::uint64_t operations_ = 0;
  EventRing ring_;
  std::atomic<int> answers_starting_{0};
};

/// The type of each member of an answer at any depth, by its path such as "ok.places[].at". Objects
/// whose names are data, such as places and reasons, are not looked into.
std::map<std::string, std::string> member_types(const boost::json::value& answer);

}  // namespace vma
