#pragma once

#include "placement/planning/decision.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace vma {

/// Which refusals are the same again: a policy that wants a move wants it at each tick, and is
/// refused for the same reason until that changes. Rings keep one entry of such a run, with a
/// count, so that refusals do not push out what has happened. One thread at a time.
class RefusalRuns {
 public:
  enum class Of { chunk, allocation };  ///< What has one run for each reason and target.

  explicit RefusalRuns(Of of) : of_(of) {}

  /// The number of the entry that a refusal belongs to. None: it begins a run, and `begin` follows.
  std::optional<std::uint64_t> entry_of(const Decision& refused) const;
  /// Throws: std::bad_alloc.
  void begin(const Decision& refused, std::uint64_t entry);
  /// Anything but a refusal ends the runs of what it is about.
  void end(const Decision& decision) noexcept;

 private:
  /// Allocation, slot, target and the name of the reason, without the numbers behind it.
  using Key = std::tuple<std::uint64_t, std::uint32_t, Location, std::string>;
  Key key_of(const Decision& decision) const;

  static constexpr std::size_t runs_max = 65'536;

  const Of of_;
  std::map<Key, std::uint64_t> entries_;
};

}  // namespace vma
