#pragma once

#include "bench/placement/assignments.hpp"
#include "bench/placement/drift_load.hpp"
#include "bench/placement/readers.hpp"

#include <vma/runtime.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace vma {

/// How many GPUs the cases use: at most four. With one, nothing can drift.
std::size_t drift_gpus();

/// What each GPU reads in a phase of the load.
Shares shares_of(const DriftLoad& load, std::size_t phase);

/// A runtime, the array of the load, initially placed by first touch of the first phase, and its
/// readers. One thread.
struct DriftBed {
  DriftBed(const DriftLoad& load, const RuntimeOptions& options);
  ~DriftBed();
  DriftBed(const DriftBed&) = delete;
  DriftBed& operator=(const DriftBed&) = delete;

  Assignment first_touch() const;
  /// Moves the blocks under holds, which stop the readers.
  void lay(const Assignment& assignment);

  const DriftLoad load;
  Runtime runtime;
  std::vector<Place> gpus;
  std::byte* data = nullptr;
  std::unique_ptr<Readers> readers;
};

}  // namespace vma
