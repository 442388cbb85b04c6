#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"
#include "migrate/stops/copy_scopes.hpp"

#include <exception>

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
