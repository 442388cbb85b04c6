#include "unit/migrate/gates/gate_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {

GateRig::GateRig(const SimOptions& options, const std::string& machine)
    : MemoryRig(machine, {}, options),
      watchdog_(driver()),
      attached_(driver(), topology()),
      post_(std::make_unique<GatePost>(driver(), watchdog_, memory().chunks().ledger())),
      gate_(std::make_unique<Gate>(driver(), *post_)) {
  // The first load of a kernel's code waits for the context's work; later ones do not.
  for (std::size_t i = 0; i < topology().devices().size(); ++i) {
    launch_spin(new_stream(static_cast<int>(i)), TimePoint(1));
  }
}

GateRig::~GateRig() {
  fail_nothing();
  let_all_go();
  gate_.reset();
  for (const BoundStream stream : blocking_) {
    machine().wait_stream(stream, never);
    machine().destroy_stream(stream);
  }
  for (int gpu = 0; gpu < 2; ++gpu) machine().wait_stream({context(gpu), {}}, never);
  post_.reset();
}

BoundStream GateRig::new_blocking_stream(int gpu) {
  blocking_.push_back(machine().create_stream(context(gpu), StreamKind::blocking));
  return blocking_.back();
}

BoundStream GateRig::attach_new(int gpu, StreamKind kind) {
  const BoundStream stream =
      kind == StreamKind::blocking ? new_blocking_stream(gpu) : new_stream(gpu);
  attached_.attach(stream, Address{});
  return stream;
}

std::vector<BoundStream> GateRig::attach_some(int count, int gpu) {
  std::vector<BoundStream> streams;
  for (int i = 0; i < count; ++i) streams.push_back(attach_new(gpu));
  return streams;
}

GateLimits GateRig::patient() {
  GateLimits limits;
  limits.arrival_limit = limits.arrival_limit_min = std::chrono::seconds(20);
  limits.wait_limit = limits.look_limit = std::chrono::seconds(20);
  limits.settle_limit = std::chrono::seconds(20);
  return limits;
}

bool GateRig::runs(BoundStream stream) {
  launch_spin(stream, TimePoint(1000));
  return machine().wait_stream(stream, in(std::chrono::milliseconds(20)));
}

bool GateRig::run(const std::vector<BoundStream>& streams) {
  return std::ranges::all_of(streams, [this](BoundStream stream) { return runs(stream); });
}

StopRefusal::Why why(const std::optional<StopRefusal>& refusal) {
  return refusal ? refusal->why : StopRefusal::none;
}

}  // namespace vma
