#pragma once

#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/moves/migrator.hpp"

#include <vma/migration.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// Takes all memory with a tag out of HBM, with or without its contents, and brings it back.
/// Remembers which GPU each chunk came from, from its parking until it is in HBM again. Any thread;
/// one park or resume at a time.
///
/// Whatever fails, every chunk is entirely at one place, or dropped (I4), and a second call
/// continues where the first one ended. Freed HBM goes back to the driver; freed host memory stays
/// cached, so that the next parking need not allocate it.
class Parker {
 public:
  Parker(Memory& memory, Migrator& migrator);

  /// Throws: Error{invalid_argument} for an empty tag, for a target that is not a host node, or if
  /// no allocation has the tag. Blocks: until everything has moved or failed to.
  ParkReport park(const std::string& tag, const ParkOptions& options);
  /// Throws: Error{invalid_argument} if nothing with the tag is parked. Blocks: like `park`.
  ParkReport resume(const std::string& tag, const ParkOptions& options);
  bool is_parked(const std::string& tag);
  /// Whether the allocation has parked chunks. The cost does not depend on how much else is parked.
  bool holds(const Allocation& allocation);
  /// Number of allocations with parked chunks.
  std::size_t parked();

 private:
  /// One allocation, with the GPU that each of its parked chunks came from.
  struct Parked {
    std::weak_ptr<Allocation> allocation;
    std::vector<std::optional<Place>> homes;
  };
  using Parkings = std::map<std::string, std::map<Address, Parked>>;
  struct Step;

  /// The GPU that each slot of a parked allocation came from; unset for all slots if unknown.
  std::vector<std::optional<Place>> homes_of(const Allocation& allocation);
  std::vector<Step> plan_park(const std::string& tag, const ParkOptions& options,
                              ParkReport& report);
  void note_homes(const std::string& tag, std::map<Address, Parked> found);
  std::vector<Step> plan_resume(const std::string& tag, ParkReport& report);
  void take_step(Step& step, const ParkOptions& options);
  void make_targets(const std::vector<Step>& steps);
  void carry_out(std::vector<Step>& steps, const ParkOptions& options, const MigrationTerms& terms);
  void move_held(std::span<Step* const> steps, std::span<const RequestedRange> ranges,
                 const MigrateOptions& how, const MigrationTerms& terms, GroupAccount& account);
  void move_at_gates(std::span<Step* const> steps, std::span<const RequestedRange> ranges,
                     const MigrateOptions& how, const MigrationTerms& terms,
                     const std::shared_ptr<GroupAccount>& account);
  static void note_failure(Step& step, const Error& error);
  template <typename Body>
  static void attempt(Step& step, Body&& body);
  bool may_go(const Step& step, Place to) const;
  void move_elsewhere(std::vector<Step>& steps, const ParkOptions& options, ParkReport& report);
  void sum_up(std::vector<Step>& steps, ParkReport& report);
  void forget_what_is_back(const std::string& tag);
  Place wait_place(Place from) const;
  void forget_freed() VMART_REQUIRES(mutex_);

  Memory& memory_;
  Migrator& migrator_;
  Mutex turn_;   // Held during a park or resume; taken before all other locks.
  Mutex mutex_;  // Held briefly.
  Parkings parkings_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
