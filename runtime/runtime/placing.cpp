// Requests of programs to the scheduler.
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"
#include "scheduling/evictions.hpp"

namespace vma::inline v1 {

void Runtime::set_policy(const std::string& policy) {
  const RuntimeParts::Entry entry(*parts_, "vma::set_policy");
  entry->scheduler("vma::set_policy").set_policy(policy);
}

std::string Runtime::policy() const {
  const RuntimeParts::Entry entry(*parts_, "vma::policy");
  return entry->scheduler("vma::policy").policy();
}

void Runtime::pause_scheduler() {
  const RuntimeParts::Entry entry(*parts_, "vma::pause_scheduler");
  entry->scheduler("vma::pause_scheduler").pause();
}

void Runtime::resume_scheduler() {
  const RuntimeParts::Entry entry(*parts_, "vma::resume_scheduler");
  entry->scheduler("vma::resume_scheduler").resume();
}

void Runtime::step_scheduler() {
  const RuntimeParts::Entry entry(*parts_, "vma::step_scheduler");
  entry->scheduler("vma::step_scheduler").step();
}

DrainReport Runtime::drain(Location at, const DrainOptions& options) {
  constexpr const char* call = "vma::drain";
  const RuntimeParts::Entry entry(*parts_, call);
  entry->topology.require(at, call);
  if (options.deadline < std::chrono::milliseconds(0)) {
    throw Error(ErrorKind::invalid_argument, call, "the deadline is in the past");
  }
  return entry->scheduler(call).drain_place(at, options);
}

void Runtime::refill(Location at) {
  constexpr const char* call = "vma::refill";
  const RuntimeParts::Entry entry(*parts_, call);
  entry->topology.require(at, call);
  entry->scheduler(call).refill(at);
}

std::size_t Runtime::make_room(Location at, std::size_t bytes) {
  constexpr const char* call = "vma::make_room";
  const RuntimeParts::Entry entry(*parts_, call);
  entry->topology.require(at, call);
  return vma::make_room(entry->memory, entry->scheduler(call), at, bytes);
}

std::vector<std::string> Runtime::explain(const void* pointer) const {
  constexpr const char* call = "vma::explain";
  const RuntimeParts::Entry entry(*parts_, call);
  static_cast<void>(entry->memory.require_around(pointer, call));
  return entry->scheduler(call).explain(address_of(pointer));
}

SchedulerStats Runtime::scheduler_stats() const {
  const RuntimeParts::Entry entry(*parts_, "vma::scheduler_stats");
  return entry->scheduling ? entry->scheduling->stats() : SchedulerStats{};
}

}  // namespace vma::inline v1
