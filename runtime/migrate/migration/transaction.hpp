#pragma once

#include "base/clock.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/stops/stall_forecast.hpp"
#include "migrate/migration/requests.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vma {

/// One chunk's move in progress.
///
///     planned --take_target--> ready --start_copy--> copying --finish_copy--> copied
///                              ready --note_copied--> copied by other means
///                              ready --note_clean--> copied before: a clean copy
///     ready --plan_again--> planned           the target cannot be used any more
///     copied --discard_copy--> ready          the source has changed since
///     copying --show_target--> arriving       the slot shows the target, into which the copy runs
///     arriving --finish_copy--> shown
///                           \--> stayed       the copy failed: the slot shows the source again
///                           \--> poisoned
///     copied --show_target--> shown           the slot shows the target, which may be incomplete
///                         \--> stayed         the slot shows the source again, with access for all
///                         \--> poisoned       the slot shows nothing; the source has the bytes
///     shown --keep_target--> switched         the source is idle
///     shown --take_back--> copied, poisoned   the slot shows the source again, as above
///     switched --grant_rest--> switched, poisoned
///
/// If `show_target` fails beside a copy, the transaction is `copying` still, or `poisoned` and the
/// copy goes on; `end_copy` awaits both.
///
/// The source chunk keeps the bytes, readable through its staging mapping, until `switched` (I3).
/// The destructor undoes: an idle target goes back to the cache, or to the clean copies.
///
/// One thread, which holds the allocation's `operations()`; from `show_target` to `keep_target` no
/// work that may touch the slot runs (I2): the caller has a committed gate or hold, or the user has
/// promised it.
/// One owner: each step of the drawing changes chunks, mapping and copy of the one slot together.
class Transaction {
 public:
  enum class State { planned, ready, copying, arriving, copied, shown, switched, stayed, poisoned };
  using Gpus = std::set<DeviceId>;

  Transaction(Memory& memory, CopyEngine& engine, Allocation& allocation, std::size_t slot,
              Place to);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Whether a move of the slot there has something to do: it lies elsewhere, or its chunk cannot
  /// leave the process as the allocation needs.
  static bool is_needed(Memory& memory, const Allocation& allocation, std::size_t slot, Place to);

  /// Takes the slot's clean copy at the target. False if there is none, or if there is a target
  /// already.
  bool take_clean_target();
  /// Whether the target is that copy and no write was possible since it was left: its bytes are the
  /// source's. False is final; true stays true while the caller holds `operations()`.
  bool target_clean() const noexcept;
  /// False if the cache has no suitable chunk. Throws: as `take_target`.
  bool take_cached_target();
  /// Throws: Error{out_of_memory}; then it is still planned.
  void take_target(ChunkStore::Turn turn);
  /// Maps the source for its copy: the first move of memory pays for that, before anything stops.
  /// Throws: Error{out_of_memory}. Requires: the caller holds `operations()`.
  void prepare_source(ChunkStore::Turn turn);
  bool source_is_prepared() const;
  /// The same with this chunk, which belongs to another process.
  void take_target(Chunk imported) noexcept;
  /// The same with the target that another transaction of the slot has taken, if it has one.
  /// Requires: planned; the other one is not used any more.
  void take_over_target(Transaction& other) noexcept;
  /// Throws: then no copy runs, or both chunks are `busy()`; waits for that until `deadline`.
  /// Requires: `prepare_source` was called.
  void start_copy(CopyUnder under, TimePoint deadline = never, CopyBy by = CopyBy::engine);
  /// Whether the copy is done, after waiting for it until `deadline`.
  bool copy_done_by(TimePoint deadline);
  /// Blocks. Throws: what the copy failed with; then the target is quarantined, and the slot shows
  /// the source, or nothing if it is `poisoned`.
  void finish_copy();
  /// The bytes are in the target, by whatever means.
  void note_copied();
  /// Like `note_copied`, for a clean copy. Requires: `target_clean()`; the caller keeps it so.
  void note_clean();
  void discard_copy();
  /// The target may still be written to: it is quarantined, and so is the source once no slot shows
  /// it, since it may still be read. The next target is a new one. Requires: `ready`.
  void plan_again(const char* reason) noexcept;
  /// Like `plan_again`, and the chunk stays.
  void abandon_target(const char* reason) noexcept;
  /// Waits for a copy that is no longer wanted; at `deadline` it is abandoned together with its
  /// target, and the slot shows the source. An `arriving` target whose copy has ended is `shown`.
  void end_copy(TimePoint deadline) noexcept;
  /// Maps the target into the slot and grants it to the GPUs in `users`; the others get access by
  /// `grant_rest`. Work may still be writing to the target. Throws: Error; `state()` is `stayed` or
  /// `poisoned` then, and the bytes are intact (I4). Adds its durations to `phases`.
  void show_target(const Gpus& users, Phases& phases) { show_instead(&users, phases); }
  /// The same for all GPUs.
  void show_target(Phases& phases) { show_instead(nullptr, phases); }
  /// The target has all bytes.
  void keep_target();
  /// The target will not have all bytes in time. Throws: Error{poisoned}, as `show_target`.
  void take_back(Phases& phases);
  /// Gives those GPUs access that `show_target` left out. Only they must not use the slot before:
  /// work on the others may run. Throws: Error, after several tries; the allocation is poisoned
  /// then, because work there would fault.
  void grant_rest(Phases& phases);
  /// `show_target` for all GPUs, and `keep_target`.
  void switch_slot(Phases& phases);
  /// The source chunk goes to the cache, or where options and terms say; one that other processes
  /// know goes back to the driver. Returns whether it is kept
  /// as the slot's clean copy: if that is requested, and read-only bytes went from host memory to
  /// HBM. Requires: switched; the caller does not hold `slow_calls().turn()`.
  bool give_source_up(const MigrateOptions& options, const MigrationTerms& terms) noexcept;

  State state() const noexcept { return state_; }
  std::size_t slot() const noexcept { return slot_; }
  Place from() const noexcept { return from_; }
  Place to() const noexcept { return to_; }
  const Allocation& allocation() const noexcept { return allocation_; }
  const Chunk& source() const { return allocation_.chunk(slot_); }
  const Chunk& target() const noexcept { return target_; }
  /// Whether it is ready, and the target can be passed to other processes.
  bool target_exportable() const noexcept { return target_ && target_.types().descriptor; }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  /// If `users` are the GPUs that get access.
  StallForecast::Switch planned_switch(const Gpus& users) const;
  StallForecast::Switch planned_switch() const;
  /// Whether it has moved without a copy.
  bool remapped() const noexcept { return state_ == State::switched && noted_clean_; }
  std::chrono::nanoseconds dark() const noexcept { return dark_; }
  /// Requires: switched.
  TimePoint switched_at() const noexcept { return switched_at_; }

 private:
  void give_copy_up(const char* reason) noexcept;
  void leave_target(const char* reason) noexcept;
  void set_target_aside(const char* reason) noexcept;
  bool may_keep_source() const noexcept;
  enum class Mapped { nothing, target, source };

  void move_to(State next);
  void accept(Chunk target, ChunkStore::Turn turn);
  void list_accessors(const Gpus* users);
  void show_instead(const Gpus* users, Phases& phases);
  void show(const Chunk& chunk, Mapped which, Phases& phases);
  void hide(Phases& phases);
  void show_with_spares(Phases& phases);
  void go_home(Phases& phases);
  std::string name() const;

  Memory& memory_;
  Driver& driver_;
  CopyEngine& engine_;
  Allocation& allocation_;
  const std::size_t slot_;
  const Place from_;
  const Place to_;
  const std::uint64_t size_bytes_;
  State state_ = State::planned;
  Mapped mapped_ = Mapped::source;
  Chunk target_;
  Chunk source_;  // Set once switched.
  // Of the slot, from the switch on; `late_accessors_` are those of the target for `grant_rest`.
  std::vector<Accessor> source_accessors_, target_accessors_, late_accessors_;
  CopyEngine::Copy copy_;
  bool copy_runs_ = false;
  std::optional<std::uint64_t> clean_in_;  // The writable epoch in which the target is clean.
  bool noted_clean_ = false;
  bool took_copy_ = false;  // Whether still clean or not.
  std::optional<std::uint64_t>
      read_only_in_;  // That of the switch, if the allocation is read-only then.
  std::chrono::nanoseconds dark_{0};
  TimePoint switched_at_{0};
};

/// Target memory of one migration, taken before it begins: of a group in which all of it is there
/// before anything moves (`reserve_targets`). One thread at a time, which has the allocation's move
/// claim. Between the reservation and the migration, another thread may have the claim, and move
/// the same memory.
class ReservedTargets {
 public:
  /// Slots are added in ascending order; the caller takes the target. Throws: std::bad_alloc.
  Transaction& add(Memory& memory, CopyEngine& engine, Allocation& allocation, std::size_t slot,
                   Place to) {
    return targets_.emplace_back(memory, engine, allocation, slot, to);
  }
  /// Gives `planned` the target of its slot, if there is one. Requires: slots are asked for in
  /// ascending order.
  void hand_over_to(Transaction& planned) noexcept;
  bool empty() const noexcept { return targets_.empty(); }
  /// What was not needed goes back to the cache, or to the clean copies.
  void give_back() noexcept { targets_.clear(); }

 private:
  std::list<Transaction> targets_;  // Each only takes its target. A list needs no memory if empty.
};

}  // namespace vma
