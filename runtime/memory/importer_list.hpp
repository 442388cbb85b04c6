#pragma once

#include "base/mutex.hpp"

#include <vma/place.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A process that uses an exported allocation, as the kernel reports it.
struct ImportingProcess {
  int process = 0;
  unsigned int user = 0;
  /// Those of this process's GPUs that it uses, too, in its order; none if it did not say.
  std::optional<std::vector<Place>> gpus{};

  /// Whether it can map memory there, as far as this process knows. Every process uses host nodes.
  bool can_map(Place at) const noexcept;
};

/// The importers of one allocation. Any thread.
class ImporterList {
 public:
  /// Returns an id for `remove`; ids are never reused. Throws: std::bad_alloc.
  std::uint64_t add(const ImportingProcess& importer);
  /// Does nothing if the id is unknown.
  void remove(std::uint64_t id) noexcept;
  bool empty() const noexcept { return count_.load() == 0; }
  /// In the order in which they came; a process that imports twice is listed twice.
  std::vector<ImportingProcess> all() const;
  /// Words that follow "the allocation at ...", with the first importer's process.
  std::string why_pinned() const;
  /// Words that follow "the allocation at ...", if one of them cannot map memory there; otherwise
  /// empty.
  std::string why_not_at(Place at) const;

 private:
  struct Entry {
    std::uint64_t id = 0;
    ImportingProcess importer;
  };
  mutable Mutex mutex_;
  std::vector<Entry> entries_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_id_ VMART_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> count_{0};  // For `empty`, which every move asks.
};

}  // namespace vma
