#include "memory/keepers.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

Keepers::Keepers(Driver& driver, const Topology& topology, Ledger& ledger)
    : driver_(driver),
      ledger_(ledger),
      readers_(topology.readers(gpu(index(topology.devices().front())))) {
  const std::uint64_t granule = topology.granularity();
  const auto make = [&](Location at) {
    if (!ledger_.claim(at, granule, Ledger::Use::own)) {
      throw Error(ErrorKind::out_of_memory, "vma::Runtime",
                  fmt::format("the capacity of {} leaves no room for a keeper", to_string(at)));
    }
    return Chunk(driver_, ledger_, at, granule, topology.readers(at));
  };
  for (const DeviceId device : topology.devices()) {
    const Location at = gpu(index(device));
    keepers_.push_back(make(at));
    const MutexLock lock(mutex_);
    spares_.push_back(make(at));
  }
}

void Keepers::poke() {
  const Accessor owner{keepers_.front().at(), Access::read_write};
  regrant({&owner, 1});
}

void Keepers::rehearse() {
  regrant(readers_);
}

void Keepers::regrant(std::span<const Accessor> accessors) {
  // Another right each time, so that no driver can find that there is nothing to do.
  writable_ = !writable_;
  std::vector<Accessor> changed(accessors.begin(), accessors.end());
  for (Accessor& accessor : changed) {
    accessor.access = writable_ ? Access::read_write : Access::read;
  }
  const Chunk& keeper = keepers_.front();
  driver_.grant(keeper.staging(), keeper.size_bytes(), changed);
}

bool Keepers::give_up_spares() noexcept {
  const MutexLock lock(mutex_);
  if (spares_.empty()) return false;
  for (Chunk& spare : spares_) {
    const Location at = spare.at();
    const std::uint64_t size_bytes = spare.size_bytes();
    spare = Chunk();
    ledger_.unclaim(at, size_bytes, Ledger::Use::own);
  }
  spares_.clear();
  return true;
}

}  // namespace vma
