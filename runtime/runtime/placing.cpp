// What lies where: requests of programs to the scheduler, and parking.
#include "base/log.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"
#include "scheduling/evictions.hpp"

#include <vma/runtime.hpp>

#include <exception>

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

DrainReport Runtime::drain(Place at, const DrainOptions& options) {
  constexpr const char* call = "vma::drain";
  const RuntimeParts::Entry entry(*parts_, call);
  entry->topology.require(at, call);
  if (options.deadline < std::chrono::milliseconds(0)) {
    throw Error(ErrorKind::invalid_argument, call, "the deadline is in the past");
  }
  return entry->scheduler(call).drain_place(at, options);
}

void Runtime::refill(Place at) {
  constexpr const char* call = "vma::refill";
  const RuntimeParts::Entry entry(*parts_, call);
  entry->topology.require(at, call);
  entry->scheduler(call).refill(at);
}

std::size_t Runtime::make_room(Place at, std::size_t bytes) {
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

namespace vma {
namespace {

/// The move waits for the hook.
void check_no_hook(const char* call) {
  if (!HookList::any_runs_here()) return;
  throw Error(ErrorKind::invalid_argument, call, "a hook called it, which would deadlock");
}

/// Makes the scheduler ignore what is parked, from before it leaves until after it is back, so that
/// no policy moves it meanwhile.
class ParkingNotice {
 public:
  ParkingNotice(Machinery& machinery, const std::string& tag) : machinery_(machinery), tag_(tag) {
    tell([](const Allocation&) { return true; });
  }
  ~ParkingNotice() {
    tell([this](const Allocation& allocation) { return machinery_.parker.holds(allocation); });
  }
  ParkingNotice(const ParkingNotice&) = delete;
  ParkingNotice& operator=(const ParkingNotice&) = delete;

 private:
  template <typename Parked>
  void tell(Parked&& parked) noexcept {
    if (!machinery_.scheduling) return;
    try {
      for (const auto& allocation : machinery_.memory.registry().all()) {
        if (allocation->tag != tag_) continue;
        machinery_.scheduling->scheduler().set_parked(allocation->begin(), parked(*allocation));
      }
    } catch (const std::exception& error) {
      log(LogLevel::warn, "could not tell the scheduler what is parked: {}", error.what());
    }
  }

  Machinery& machinery_;
  const std::string& tag_;
};

}  // namespace

inline namespace v1 {

ParkReport Runtime::park(const std::string& tag, const ParkOptions& options) {
  const RuntimeParts::Entry entry(*parts_, "vma::park");
  check_options(options.how, "vma::park");
  check_no_hook("vma::park");
  CopyScopes::process().look();
  const ParkingNotice notice(*entry, tag);
  return entry->parker.park(tag, options);
}

ParkReport Runtime::resume(const std::string& tag, const ParkOptions& options) {
  const RuntimeParts::Entry entry(*parts_, "vma::resume");
  check_options(options.how, "vma::resume");
  check_no_hook("vma::resume");
  CopyScopes::process().look();
  const ParkingNotice notice(*entry, tag);
  return entry->parker.resume(tag, options);
}

bool Runtime::is_parked(const std::string& tag) const {
  const RuntimeParts::Entry entry(*parts_, "vma::is_parked");
  return entry->parker.is_parked(tag);
}

}  // namespace v1
}  // namespace vma
