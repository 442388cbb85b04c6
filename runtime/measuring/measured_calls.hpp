#pragma once

#include "base/clock.hpp"
#include "driver/driver.hpp"
#include "machine/machine_description.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// Durations of a machine's calls, as far as they were measured; other members of `costs` are
/// unset. One thread.
struct MeasuredCalls {
  CostParameters costs;
  std::vector<std::string> keys;      ///< Keys of the measured costs, as in a machine file.
  std::vector<std::string> failures;  ///< What could not be measured, and why.
  TimePoint deadline = never;         ///< Measurements that have not begun by then are skipped.

  void took(const char* key);
  /// Throws: Error{busy} after the deadline.
  void require_time(const Clock& clock) const;
};

/// How long `body` takes by the machine's clock, in microseconds.
double timed_us(Clock& clock, const std::function<void()>& body);

/// A range of addresses and the chunk in it. Each driver call is a separate function, so that it
/// can be timed. The destructor releases what is left. Neither copied nor moved: keep it in a list.
class ProbedChunk {
 public:
  explicit ProbedChunk(Driver& driver) : driver_(driver) {}
  ~ProbedChunk();
  ProbedChunk(const ProbedChunk&) = delete;
  ProbedChunk& operator=(const ProbedChunk&) = delete;

  void reserve(std::uint64_t size_bytes);
  void create(Place at);
  void map() { show(*this); }
  /// Maps the chunk of `other`, which must outlive the mapping.
  void show(const ProbedChunk& other);
  void grant(std::span<const Accessor> readers) { driver_.grant(begin_, size_bytes_, readers); }
  void unmap();
  void release();
  void unreserve();
  Address begin() const noexcept { return begin_; }

 private:
  Driver& driver_;
  Address begin_{};
  std::uint64_t size_bytes_ = 0;  // 0 if nothing is reserved.
  ChunkHandle chunk_{};
  bool created_ = false, mapped_ = false;
};

}  // namespace vma
