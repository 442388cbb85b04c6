#include "migrate/mover.hpp"

#include "migrate/held_move.hpp"

namespace vma {

Mover::Mover(Memory& memory, CopyEngine& engine, std::chrono::nanoseconds hold_limit)
    : memory_(memory), engine_(engine), hold_limit_(hold_limit), watchdog_(memory.driver()) {}

Mover::~Mover() = default;

HoldPost& Mover::post(Location from, Location to) {
  if (!post_) {
    post_ = std::make_unique<HoldPost>(memory_.driver(), engine_.spare_stream(from, to),
                                       memory_.ledger());
  }
  return *post_;
}

MigrationReport Mover::move(Allocation& allocation, SlotRange range, Location to,
                            const MigrateOptions& options) {
  return HeldMove(*this, allocation, range, to, options).run();
}

}  // namespace vma
