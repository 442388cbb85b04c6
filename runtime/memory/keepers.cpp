#include "memory/keepers.hpp"

#include "base/log.hpp"
#include "base/printable.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace vma {

Keepers::Keepers(Driver& driver, const Topology& topology, Ledger& ledger)
    : driver_(driver),
      ledger_(ledger),
      readers_(topology.readers(gpu(index(topology.devices().front())))) {
  const std::uint64_t granule = topology.granularity();
  const auto make = [&](Place at) {
    if (!ledger_.claim(at, granule, Ledger::Use::own)) {
      throw Error(
          ErrorKind::out_of_memory, "vma::Runtime",
          fmt::format("the capacity of {} is {}, and vmart itself needs {} there; set more, "
                      "such as {}=1GiB",
                      to_string(at), bytes_text(ledger_.account(at).capacity_bytes),
                      bytes_text(2 * granule), place_name(at)));
    }
    return Chunk(driver_, ledger_, at, granule, topology.readers(at));
  };
  for (const DeviceId device : topology.devices()) {
    const Place at = gpu(index(device));
    keepers_.push_back(make(at));
    const MutexLock lock(mutex_);
    spares_.push_back(make(at));
  }
  probed_ = *std::ranges::find(readers_, keepers_.front().at(), &Accessor::who);
  slot_ = Reservation(driver, ledger, granule);
  rehearse_switch();
}

Keepers::~Keepers() {
  if (!shown_) return;
  const bool hidden =
      ledger_.undo("the keepers' slot", [&] { driver_.unmap(slot_.begin(), slot_.size_bytes()); });
  if (!hidden) slot_.abandon();
}

/// Toggles the right each time, so that no driver can skip the call.
void Keepers::probe_grant() {
  probed_.access = probed_.access == Access::read ? Access::read_write : Access::read;
  const Chunk& keeper = keepers_.front();
  driver_.grant(keeper.staging(), keeper.size_bytes(), {&probed_, 1});
}

void Keepers::rehearse_switch() noexcept {
  const Address begin = slot_.begin();
  const std::uint64_t size_bytes = slot_.size_bytes();
  try {
    if (shown_) driver_.unmap(begin, size_bytes);
    shown_ = false;
    driver_.map(begin, size_bytes, keepers_.front().handle());
    shown_ = true;
    driver_.grant(begin, size_bytes, readers_);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "the next switch is not rehearsed: {}", error.what());
  }
}

bool Keepers::give_up_spares() noexcept {
  const MutexLock lock(mutex_);
  if (spares_.empty()) return false;
  for (Chunk& spare : spares_) {
    const Place at = spare.at();
    const std::uint64_t size_bytes = spare.size_bytes();
    spare = Chunk();
    ledger_.unclaim(at, size_bytes, Ledger::Use::own);
  }
  spares_.clear();
  return true;
}

}  // namespace vma
