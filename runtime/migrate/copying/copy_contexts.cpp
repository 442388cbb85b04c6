#include "migrate/copying/copy_contexts.hpp"

#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace vma {

CopyContext choose_context(CopyUnder under, const ContextFacts& facts) {
  // It waits for nobody, and costs nothing more.
  if (facts.own_exists || facts.own_only || !facts.application_active) return CopyContext::own;
  return under == CopyUnder::nothing ? CopyContext::application : CopyContext::own;
}

CopyContexts::CopyContexts(Driver& driver, const Topology& topology, ContextsInUse& contexts,
                           Ledger& ledger, bool own_only)
    : driver_(driver),
      topology_(topology),
      contexts_(contexts),
      ledger_(ledger),
      own_only_(own_only) {
  for (const DeviceId device : topology.devices()) creating_[device];
}

CopyContexts::~CopyContexts() {
  const MutexLock lock(mutex_);
  for (const auto& [device, context] : own_) {
    contexts_.forget(context);
    ledger_.undo("a context of the copy engine",
                 [&, own = context] { driver_.destroy_context(own); });
  }
}

ContextFacts CopyContexts::facts_of(DeviceId device) {
  ContextFacts facts;
  facts.own_only = own_only_;
  bool avoided = false;
  {
    const MutexLock lock(mutex_);
    facts.own_exists = own_.contains(device);
    avoided = avoided_.contains(device);
  }
  facts.application_active = !avoided && driver_.context_active(device);
  return facts;
}

CopyContexts::Chosen CopyContexts::choose_on(DeviceId device, CopyUnder under) {
  return {device, choose_context(under, facts_of(device))};
}

/// In order of preference: the source pushes, else the target pulls. Bytes of one place, which a
/// program reads, writes or zeroes, may also pass through another GPU.
std::vector<DeviceId> CopyContexts::candidates(Place from, Place to) const {
  std::vector<DeviceId> gpus;
  for (const Place end : {from, to}) {
    if (end.kind == Place::Kind::gpu) gpus.push_back(DeviceId{end.ordinal});
  }
  if (from == to || gpus.empty()) {
    gpus.insert(gpus.end(), topology_.devices().begin(), topology_.devices().end());
  }
  std::erase_if(gpus, [&](DeviceId device) {
    return !topology_.reaches(device, from) || !topology_.reaches(device, to);
  });
  return gpus;
}

std::optional<CopyContexts::Chosen> CopyContexts::choose(Place from, Place to, CopyUnder under) {
  const std::vector<DeviceId> gpus = candidates(from, to);
  if (gpus.empty()) return std::nullopt;
  for (const DeviceId device : gpus) {
    const ContextFacts facts = facts_of(device);
    const CopyContext kind = choose_context(under, facts);
    if (kind != CopyContext::own || facts.own_exists) return Chosen{device, kind};
  }
  return Chosen{gpus.front(), CopyContext::own};
}

ContextHandle CopyContexts::open(Chosen chosen) {
  if (chosen.kind == CopyContext::application) {
    const ContextHandle context = contexts_.primary(chosen.device);
    if (!is_none(context)) return context;  // Otherwise the program has closed it meanwhile.
  }
  return open_own(chosen.device);
}

ContextHandle CopyContexts::open_own(DeviceId device) {
  const MutexLock creating(creating_.at(device));
  {
    const MutexLock lock(mutex_);
    if (const auto made = own_.find(device); made != own_.end()) return made->second;
  }
  const std::uint64_t before = free_bytes(device);
  const TimePoint begun = driver_.clock().now();
  const ContextHandle context = make_own(device);
  try {
    contexts_.exclude(context);
    const MutexLock lock(mutex_);
    own_.emplace(device, context);
  } catch (...) {
    contexts_.forget(context);
    ledger_.undo("a context of the copy engine", [&] { driver_.destroy_context(context); });
    throw;
  }
  const std::uint64_t after = free_bytes(device);
  const std::uint64_t bytes = after == 0 ? 0 : before - std::min(before, after);
  log(LogLevel::debug, "gpu({}): a context of the runtime's own took {} and {:.0f} ms",
      index(device), bytes_text(bytes), in_ms(driver_.clock().now() - begun));
  const MutexLock lock(mutex_);
  own_bytes_[device] = bytes;
  return context;
}

ContextHandle CopyContexts::make_own(DeviceId device) {
  try {
    return driver_.create_own_context(device);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    throw Error(ErrorKind::out_of_memory, error.call(),
                fmt::format("gpu({}) has no room for a context of the runtime's own, in which it "
                            "copies while the program's work is stopped: free about 0.3 GiB there, "
                            "by vma::trim for example; {}",
                            index(device), error.what()),
                error.native());
  }
}

/// What would be free without memory of the ledger, which others allocate beside a context that is
/// being created; 0 if the driver does not say.
std::uint64_t CopyContexts::free_bytes(DeviceId device) noexcept {
  try {
    return driver_.free_bytes(device) + ledger_.account(gpu(index(device))).total();
  } catch (const std::exception&) {
    return 0;
  }
}

bool CopyContexts::has_own(DeviceId device) {
  const MutexLock lock(mutex_);
  return own_.contains(device);
}

std::uint64_t CopyContexts::own_bytes(DeviceId device) {
  const MutexLock lock(mutex_);
  const auto found = own_bytes_.find(device);
  return found == own_bytes_.end() ? 0 : found->second;
}

void CopyContexts::avoid(DeviceId device) {
  const MutexLock lock(mutex_);
  avoided_.insert(device);
}

}  // namespace vma
