#pragma once

#include "lab/policies/lab_policies.hpp"
#include "lab/replay/replay.hpp"
#include "unit/lab/replay/two_gpus.hpp"
#include "unit/lab/trace/listed_trace.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {

inline constexpr Time start{0};
inline const TracePlace on_0{gpu(0)}, on_1{gpu(1)}, on_host{host(0)};

/// All policies.
inline std::vector<std::string> policy_names() {
  const std::vector<std::string_view> names = lab_policies().names();
  return {names.begin(), names.end()};
}

/// Two GPUs of 1000 bytes and a host node of 10000, chunks of 100 bytes, and a policy.
struct ReplayRig {
  ReplayRig() { options.chunk_bytes = 100; }

  ReplayMachine machine() const {
    return {"two GPUs",
            {{gpu(0), hbm_bytes, 0, 0}, {gpu(1), hbm_bytes, 0, 0}, {host(0), host_bytes, 0, 0}},
            gpus.costs,
            LinkMap(gpus.peers, gpus.costs),
            gaps,
            late,
            gpus.peers};
  }
  ReplayReport run(ListedTrace& trace, std::unique_ptr<Policy> policy) {
    const ReplayMachine machine = this->machine();
    return Replay(machine, options, std::move(policy), make_router(router)).run(trace);
  }
  ReplayReport run(ListedTrace& trace, const std::string& policy = "stay_put") {
    return run(trace, lab_policies().make(policy));
  }

  TwoGpus gpus;
  LaunchGaps gaps;
  LateStops late;
  ReplayOptions options;
  std::uint64_t hbm_bytes = 1000, host_bytes = 10'000;
  std::string router = "least_loaded";
};

/// A policy whose proposals at each tick the test provides.
class ToldPolicy : public Policy {
 public:
  using Tell = std::function<void(const Snapshot&, Plan&)>;
  explicit ToldPolicy(Tell tell) : tell_(std::move(tell)) {}
  void on_tick(const Snapshot& snapshot, Plan& plan) override { tell_(snapshot, plan); }

 private:
  const Tell tell_;
};

}  // namespace vma
