#include "memory/keepers.hpp"

#include "base/printable.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

Keepers::Keepers(Driver& driver, const Topology& topology, Ledger& ledger)
    : driver_(driver),
      ledger_(ledger),
      rights_(topology.readers(gpu(index(topology.devices().front())))) {
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
}

void Keepers::probe_grant() {
  for (Accessor& right : rights_) {
    if (right.who == keepers_.front().at()) regrant({&right, 1});
  }
}

void Keepers::warm_grant() {
  regrant(rights_);
}

/// Toggles the rights each time, so that no driver can skip the call.
void Keepers::regrant(std::span<Accessor> rights) {
  for (Accessor& right : rights) {
    right.access = right.access == Access::read ? Access::read_write : Access::read;
  }
  const Chunk& keeper = keepers_.front();
  driver_.grant(keeper.staging(), keeper.size_bytes(), rights);
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
