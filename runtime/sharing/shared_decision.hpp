#pragma once

#include "control/descriptor.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vma {

/// What becomes of one move of shared memory: a word that the exporter and all importers have
/// mapped. The first of them that decides does so for all, at one instant; so no process has to
/// live, or to answer, for the others to know. Any thread.
class SharedDecision {
 public:
  enum class Value : std::uint32_t { open, move, stay };

  /// A new one, open. Throws: Error{out_of_memory}.
  SharedDecision();
  /// One of another process, by its descriptor. Throws: Error{peer_failure} if the other process
  /// could cut it off.
  explicit SharedDecision(Descriptor descriptor);
  ~SharedDecision();
  SharedDecision(const SharedDecision&) = delete;
  SharedDecision& operator=(const SharedDecision&) = delete;

  /// A descriptor for another process. Throws: Error{out_of_memory}.
  Descriptor pass_on() const;
  Value value() const noexcept;
  /// Returns what counts: `wanted`, or what another process had decided before.
  Value decide(Value wanted) noexcept;
  /// The value once it is decided, or after `limit`.
  Value await(std::chrono::milliseconds limit) const noexcept;

 private:
  using Word = std::atomic<std::uint32_t>;
  void map();

  Descriptor descriptor_;
  Word* word_ = nullptr;
};

}  // namespace vma
