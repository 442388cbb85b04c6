#include "migrate/migration/transaction.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "memory/chunk.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

bool is_among(const Transaction::Gpus& gpus, const Accessor& reader) {
  return reader.who.kind == Place::Kind::gpu && gpus.contains(DeviceId{reader.who.ordinal});
}

}  // namespace

Transaction::Transaction(Memory& memory, CopyEngine& engine, Allocation& allocation,
                         std::size_t slot, Place to)
    : memory_(memory),
      driver_(memory.driver()),
      engine_(engine),
      allocation_(allocation),
      slot_(slot),
      from_(allocation.place(slot)),
      to_(to),
      size_bytes_(allocation.geometry().slot_bytes(slot)) {}

Transaction::~Transaction() {
  constexpr std::chrono::seconds patience(2);
  end_copy(driver_.clock().now() + patience);
  if (source_) memory_.chunks().retire(std::move(source_));
  if (!target_) return;
  if (mapped_ == Mapped::target) {
    memory_.chunks().quarantine(std::move(target_), "a slot that shows it cannot be unmapped");
  } else if (target_clean()) {
    memory_.chunks().keep_copy(allocation_, slot_, *clean_in_, std::move(target_));
  } else {
    if (took_copy_) memory_.chunks().copies().note_dropped();
    memory_.chunks().retire(std::move(target_));
  }
}

void Transaction::move_to(State next) {
  const bool allowed =
      (state_ == State::planned && next == State::ready) ||
      (state_ == State::ready && (next == State::copying || next == State::copied)) ||
      (state_ == State::copied && next == State::ready) ||
      (state_ == State::ready && next == State::planned) ||
      (state_ == State::copying && (next == State::copied || next == State::arriving ||
                                    next == State::stayed || next == State::poisoned)) ||
      (state_ == State::arriving &&
       (next == State::shown || next == State::stayed || next == State::poisoned)) ||
      (state_ == State::copied && (next == State::shown || next >= State::stayed)) ||
      (state_ == State::shown &&
       (next == State::switched || next == State::copied || next == State::poisoned)) ||
      (state_ == State::switched && next == State::poisoned);
  VMART_CHECK(allowed, "a transaction follows its state diagram");
  state_ = next;
}

bool Transaction::is_needed(Memory& memory, const Allocation& allocation, std::size_t slot,
                            Place to) {
  if (allocation.place(slot) != to) return true;
  const ExportTerms& terms = memory.chunks().export_terms();
  return !terms.suits(allocation.chunk(slot), allocation.export_needs);
}

bool Transaction::take_clean_target() {
  // A move that waited behind a free names addresses, whose copies may belong to another
  // allocation.
  if (state_ != State::planned || allocation_.being_freed || allocation_.exported) return false;
  const std::uint64_t epoch = allocation_.writable_epoch();
  target_ = memory_.chunks().take_copy(allocation_, slot_, to_, epoch);
  if (!target_) return false;
  if (!memory_.chunks().export_terms().suits(target_, allocation_.export_needs)) {
    memory_.chunks().copies().note_dropped();
    memory_.chunks().retire(std::move(target_));
    return false;
  }
  clean_in_ = epoch;
  took_copy_ = true;
  move_to(State::ready);
  return true;
}

bool Transaction::target_clean() const noexcept {
  return clean_in_ && *clean_in_ == allocation_.writable_epoch() && !allocation_.exported;
}

StallForecast::Switch Transaction::planned_switch(const Gpus& users) const {
  const std::vector<Accessor> readers = memory_.topology().readers(to_);
  const auto gets_access = [&](const Accessor& reader) { return is_among(users, reader); };
  return {from_, to_, size_bytes_,
          static_cast<std::size_t>(std::ranges::count_if(readers, gets_access))};
}

StallForecast::Switch Transaction::planned_switch() const {
  return {from_, to_, size_bytes_, memory_.topology().readers(to_).size()};
}

bool Transaction::take_cached_target() {
  ChunkStore& chunks = memory_.chunks();
  Chunk target = chunks.obtain_ready(to_, size_bytes_, allocation_.export_needs);
  if (!target) {
    // Cached memory may have to be taken apart, which must not happen beside a closed gate.
    const MutexLock slow_work(chunks.slow_calls().turn());
    target = chunks.obtain_cached(to_, size_bytes_, allocation_.export_needs);
  }
  if (!target) return false;
  try {
    accept(std::move(target), ChunkStore::Turn::take);
  } catch (const Error& error) {  // `take_target` is called where somebody may make room.
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return false;
  }
  return true;
}

void Transaction::take_target(ChunkStore::Turn turn) {
  accept(memory_.chunks().obtain(to_, size_bytes_, turn, "vma::migrate", allocation_.export_needs),
         turn);
}

/// The slow first grant of a new handle is for its staging mapping: that of the slot is quick then.
void Transaction::accept(Chunk target, ChunkStore::Turn turn) {
  try {
    memory_.chunks().map_staging(target, turn);
  } catch (...) {
    memory_.chunks().retire(std::move(target));
    throw;
  }
  target_ = std::move(target);
  move_to(State::ready);
}

bool Transaction::source_is_prepared() const {
  // A move that waited behind a free finds no chunk, and will not copy.
  return !allocation_.has_chunk(slot_) || allocation_.chunk(slot_).has_staging();
}

void Transaction::prepare_source(ChunkStore::Turn turn) {
  if (!source_is_prepared()) memory_.chunks().map_staging(allocation_.chunk(slot_), turn);
}

void Transaction::take_target(Chunk imported) noexcept {
  VMART_CHECK(imported.imported() && imported.size_bytes() == size_bytes_,
              "nothing is booked for it, and it has the size of its slot");
  target_ = std::move(imported);
  move_to(State::ready);
}

void Transaction::take_over_target(Transaction& other) noexcept {
  VMART_CHECK(slot_ == other.slot_ && to_ == other.to_, "a target has the size of its slot");
  if (other.state_ != State::ready) return;
  target_ = std::move(other.target_);
  clean_in_ = std::exchange(other.clean_in_, std::nullopt);
  took_copy_ = std::exchange(other.took_copy_, false);
  other.move_to(State::planned);
  move_to(State::ready);
}

void Transaction::start_copy(CopyUnder under, TimePoint deadline, CopyBy by) {
  clean_in_.reset();  // It is written to.
  copy_ = engine_.enqueue(allocation_.chunk(slot_), target_, under, deadline, by);
  copy_runs_ = true;
  move_to(State::copying);
}

bool Transaction::copy_done_by(TimePoint deadline) {
  return !copy_runs_ || engine_.wait_until(copy_, deadline);
}

void Transaction::finish_copy() {
  VMART_CHECK(copy_runs_, "a copy is awaited once");
  copy_runs_ = false;
  try {
    engine_.wait(copy_);
  } catch (...) {
    leave_target("a copy into it failed and may still be running");
    throw;
  }
  if (state_ == State::poisoned) return;
  move_to(state_ == State::arriving ? State::shown : State::copied);
}

void Transaction::note_copied() {
  VMART_CHECK(state_ == State::ready, "a target is copied to once");
  move_to(State::copied);
}

void Transaction::note_clean() {
  VMART_CHECK(target_clean(),
              "a clean copy is valid only if nothing could write to the slot since");
  note_copied();
  noted_clean_ = true;
}

void Transaction::discard_copy() {
  VMART_CHECK(state_ == State::copied, "only a copied target is discarded");
  clean_in_.reset();
  noted_clean_ = false;
  move_to(State::ready);
}

void Transaction::plan_again(const char* reason) noexcept {
  VMART_CHECK(state_ == State::ready, "only a target without a copy is replaced");
  set_target_aside(reason);
  if (std::exchange(took_copy_, false)) memory_.chunks().copies().note_dropped();
  clean_in_.reset();
  move_to(State::planned);
}

/// Work that writes to the target may still read the source.
void Transaction::set_target_aside(const char* reason) noexcept {
  allocation_.chunk(slot_).mark_busy();
  memory_.chunks().quarantine(std::move(target_), reason);
}

void Transaction::abandon_target(const char* reason) noexcept {
  if (target_) set_target_aside(reason);
  state_ = State::stayed;
}

void Transaction::give_copy_up(const char* reason) noexcept {
  engine_.give_up(copy_);
  copy_runs_ = false;
  if (target_) allocation_.chunk(slot_).mark_busy();
  leave_target(reason);
}

/// Work may still be writing to the target.
void Transaction::leave_target(const char* reason) noexcept {
  if (state_ == State::arriving) {
    Phases untold;
    go_home(untold);  // I3: the source is intact.
  }
  if (target_) memory_.chunks().quarantine(std::move(target_), reason);
  if (state_ != State::poisoned) move_to(State::stayed);
}

void Transaction::end_copy(TimePoint deadline) noexcept {
  if (!copy_runs_) return;
  try {
    if (!copy_done_by(deadline)) return give_copy_up("a copy into it does not end");
    finish_copy();
  } catch (const std::exception& error) {
    log(LogLevel::warn, "an abandoned copy failed: {}", error.what());
    if (copy_runs_) give_copy_up("a copy into it failed and may still be running");
  }
}

std::string Transaction::name() const {
  return fmt::format("a slot at {:#x}", to_integer(allocation_.slot_begin(slot_)));
}

/// Before the slot goes dark: the steps that follow must not allocate host memory.
void Transaction::list_accessors(const Gpus* users) {
  source_accessors_ = allocation_.accessors(from_, memory_.topology());
  target_accessors_ = allocation_.accessors(to_, memory_.topology());
  late_accessors_.clear();
  if (users == nullptr) return;
  const auto late = std::ranges::stable_partition(
      target_accessors_, [&](const Accessor& reader) { return is_among(*users, reader); });
  if (late.begin() == target_accessors_.begin()) return;  // None of them reaches it.
  late_accessors_.assign(late.begin(), late.end());
  target_accessors_.erase(late.begin(), late.end());
}

void Transaction::hide(Phases& phases) {
  const PhaseTimer timer(driver_.clock(), phases.unmap);
  driver_.unmap(allocation_.slot_begin(slot_), size_bytes_);
  mapped_ = Mapped::nothing;
}

void Transaction::show(const Chunk& chunk, Mapped which, Phases& phases) {
  const Address begin = allocation_.slot_begin(slot_);
  if (mapped_ != which) {
    if (mapped_ != Mapped::nothing) hide(phases);
    const PhaseTimer timer(driver_.clock(), phases.map);
    driver_.map(begin, size_bytes_, chunk.handle());
    mapped_ = which;
  }
  const PhaseTimer timer(driver_.clock(), phases.grant);
  const auto& accessors = which == Mapped::target ? target_accessors_ : source_accessors_;
  driver_.grant(begin, size_bytes_, accessors);
  verify_access(driver_, begin, size_bytes_, accessors);
}

void Transaction::show_with_spares(Phases& phases) {
  try {
    show(target_, Mapped::target, phases);
  } catch (const Error& error) {
    // Page tables need memory too: release what is held back for them and retry once.
    if (error.kind() != ErrorKind::out_of_memory || !memory_.chunks().keepers().give_up_spares())
      throw;
    show(target_, Mapped::target, phases);
  }
}

void Transaction::switch_slot(Phases& phases) {
  show_target(phases);
  keep_target();
}

void Transaction::show_instead(const Gpus* users, Phases& phases) {
  const State before = state_;
  VMART_CHECK(before == State::copied || before == State::copying,
              "a target is shown beside its copy or behind it");
  VMART_CHECK(allocation_.cpu_access(slot_) == Access::none,
              "the CPU does not write to what was copied");
  Clock& clock = driver_.clock();
  const TimePoint start = clock.now();
  try {
    list_accessors(users);
    hide(phases);  // A refusal has changed nothing: the slot still shows the source.
    show_with_spares(phases);
  } catch (...) {
    if (mapped_ != Mapped::source) go_home(phases);  // I3: the source is intact.
    if (state_ == State::copied) move_to(State::stayed);
    dark_ = clock.now() - start;
    throw;
  }
  dark_ = clock.now() - start;
  move_to(before == State::copied ? State::shown : State::arriving);
}

void Transaction::keep_target() {
  VMART_CHECK(state_ == State::shown, "a target is kept once it is shown");
  source_ = allocation_.replace(slot_, std::move(target_));
  switched_at_ = driver_.clock().now();  // Readers see it there from now on.
  move_to(State::switched);
  if (noted_clean_) {
    memory_.chunks().copies().note_used(size_bytes_);
  } else if (took_copy_) {
    memory_.chunks().copies().note_dropped();
  }
  if (allocation_.read_only()) read_only_in_ = allocation_.writable_epoch();
}

void Transaction::take_back(Phases& phases) {
  VMART_CHECK(state_ == State::shown, "only a target that is shown is taken back");
  go_home(phases);
  if (state_ == State::poisoned) {
    throw Error(ErrorKind::poisoned, "vma::migrate_async",
                fmt::format("{} can show neither target nor source; vma::read still returns its "
                            "bytes",
                            name()));
  }
  move_to(State::copied);
}

void Transaction::grant_rest(Phases& phases) {
  constexpr int tries = 3;  // Releasing the spares may help if memory ran out.
  if (state_ != State::switched || late_accessors_.empty()) return;
  const PhaseTimer timer(driver_.clock(), phases.grant);
  const Address begin = allocation_.slot_begin(slot_);
  for (int attempt = 1;; ++attempt) {
    try {
      driver_.grant(begin, size_bytes_, late_accessors_);
      verify_access(driver_, begin, size_bytes_, late_accessors_);
      return late_accessors_.clear();
    } catch (const std::exception& error) {
      memory_.chunks().keepers().give_up_spares();
      if (attempt < tries) continue;
      log(LogLevel::error, "a slot at {:#x} stays without access for every GPU: {}",
          to_integer(allocation_.slot_begin(slot_)), error.what());
      allocation_.poison(slot_, true);  // I4
      move_to(State::poisoned);
      throw;
    }
  }
}

void Transaction::go_home(Phases& phases) {
  constexpr int tries = 3;  // Releasing the spares may help if memory ran out.
  const Chunk& source = allocation_.chunk(slot_);
  for (int attempt = 1;; ++attempt) {
    try {
      return show(source, Mapped::source, phases);
    } catch (const std::exception& error) {
      memory_.chunks().keepers().give_up_spares();
      if (attempt < tries) continue;
      log(LogLevel::error, "a slot at {:#x} can show neither target nor source: {}",
          to_integer(allocation_.slot_begin(slot_)), error.what());
    }
    allocation_.poison(slot_, mapped_ != Mapped::nothing);  // I4
    return move_to(State::poisoned);
  }
}

bool Transaction::may_keep_source() const noexcept {
  const bool promoted = from_.kind == Place::Kind::host && to_.kind == Place::Kind::gpu;
  // Exported memory may be written to through the handle, whatever the slot's rights are.
  return promoted && read_only_in_ && !allocation_.exported && !source_.shared() &&
         !source_.imported();
}

bool Transaction::give_source_up(const MigrateOptions& options,
                                 const MigrationTerms& terms) noexcept {
  if (!source_) return false;
  const bool keeps = (options.keep_clean_copy || terms.keeps_copy) && may_keep_source();
  if (keeps) {
    memory_.chunks().copies().note_kept();
    memory_.chunks().keep_copy(allocation_, slot_, *read_only_in_, std::move(source_));
  } else if (terms.gives_back || source_.shared() || source_.imported()) {
    // At once: the memory is free only when all processes have released it.
    memory_.chunks().dismiss(std::move(source_));
  } else {
    memory_.chunks().retire(std::move(source_));
  }
  return keeps;
}

void ReservedTargets::hand_over_to(Transaction& planned) noexcept {
  while (!targets_.empty() && targets_.front().slot() < planned.slot()) targets_.pop_front();
  if (targets_.empty() || targets_.front().slot() != planned.slot()) return;
  planned.take_over_target(targets_.front());
  targets_.pop_front();
}

}  // namespace vma
