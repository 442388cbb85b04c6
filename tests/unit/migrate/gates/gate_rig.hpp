#pragma once

#include "migrate/gates/attached_streams.hpp"
#include "migrate/gates/gate.hpp"
#include "unit/memory/memory_rig.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vma {

/// A MemoryRig with everything that a gate needs. At its end no stream may still be stopped.
class GateRig : public MemoryRig {
 public:
  explicit GateRig(const SimOptions& options = {}, const std::string& machine = "test-2");
  ~GateRig();

  AttachedStreams& attached() { return attached_; }
  Watchdog& watchdog() { return watchdog_; }
  GatePost& post() { return *post_; }
  Gate& gate() { return *gate_; }
  /// Another gate at the same post, over another driver.
  std::unique_ptr<Gate> gate_over(Driver& driver) { return std::make_unique<Gate>(driver, post()); }
  void destroy_gate() { gate_.reset(); }

  /// New streams of the GPU, attached to all memory.
  BoundStream attach_new(int gpu, StreamKind kind = StreamKind::non_blocking);
  std::vector<BoundStream> attach_some(int count, int gpu = 0);
  BoundStream new_blocking_stream(int gpu);
  GatePlan plan() { return plan_gate(attached_.in_scope(Address{1}), topology()); }
  /// Limits so long that slow tests do not reach them.
  static GateLimits patient();
  std::optional<StopRefusal> try_close() { return gate_->try_close(plan(), patient()); }

  TimePoint now() { return machine().clock().now(); }
  TimePoint in(TimePoint duration) { return now() + duration; }
  /// Whether a kernel launched there now runs at once.
  bool runs(BoundStream stream);
  /// The same for all these streams.
  bool run(const std::vector<BoundStream>& streams);

 private:
  Watchdog watchdog_;
  AttachedStreams attached_;
  std::vector<BoundStream> blocking_;
  std::unique_ptr<GatePost> post_;
  std::unique_ptr<Gate> gate_;
};

/// The reason for the refusal; `none` if there was none.
StopRefusal::Why why(const std::optional<StopRefusal>& refusal);

}  // namespace vma
