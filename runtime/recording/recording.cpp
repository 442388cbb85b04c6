#include "recording/recording.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

RecordingHeader of_this_process(RecordingHeader header) {
  header.process = static_cast<std::uint32_t>(::getpid());
  header.file = header.first_file = 1;
  return header;
}

}  // namespace

Recording::Recording(Executor& executor, const RecordingOptions& options, RecordingHeader header)
    : flush_period_(options.flush_period),
      files_(std::make_unique<RecordingFiles>(options.directory, of_this_process(std::move(header)),
                                              options.file_bytes_max)),
      queue_(executor, "vmart record", *files_, options.blocks_max) {}

Recording::Recording(Executor& executor, const RecordingOptions& options, BlockSink& sink)
    : flush_period_(options.flush_period),
      queue_(executor, "vmart record", sink, options.blocks_max) {}

Recording::~Recording() {
  {
    const MutexLock lock(mutex_);
    hand_over();
  }
  queue_.close();
}

/// If no memory is available for the next block, the records of this one are lost.
void Recording::hand_over() noexcept {
  const std::uint32_t records = builder_.records();
  if (records == 0) return;
  try {
    queue_.offer({builder_.take(), records});
  } catch (const std::exception&) {
    lost_ += records;
    builder_.clear();
  }
}

void Recording::add(std::span<const RecordedUse> uses) noexcept {
  const MutexLock lock(mutex_);
  records_ += uses.size();
  while (!uses.empty()) {
    const std::size_t added = builder_.add(uses);
    if (added == 0) hand_over();
    uses = uses.subspan(added);
  }
}

template <typename Record>
void Recording::add_one(const Record& record) noexcept {
  const MutexLock lock(mutex_);
  ++records_;
  if (builder_.add(record)) return;
  hand_over();
  builder_.add(record);
}

void Recording::add(const RecordedAllocation& allocation) noexcept {
  if (allocation.places.size() <= place_runs_max) return add_one(allocation);
  try {
    RecordedAllocation part = allocation;
    for (std::size_t first = 0; first < allocation.places.size(); first += place_runs_max) {
      const auto runs = std::min(place_runs_max, allocation.places.size() - first);
      const auto begin = allocation.places.begin() + static_cast<std::ptrdiff_t>(first);
      part.places.assign(begin, begin + static_cast<std::ptrdiff_t>(runs));
      add_one(part);
      for (const PlaceRun& run : part.places) part.first_slot += run.chunks;
    }
  } catch (const std::bad_alloc&) {
    const MutexLock lock(mutex_);
    ++records_;
    ++lost_;
  }
}

void Recording::add(const RecordedFree& free) noexcept {
  add_one(free);
}

void Recording::add(const RecordedHint& hint) noexcept {
  add_one(hint);
}

void Recording::add(const RecordedMove& move) noexcept {
  add_one(move);
}

void Recording::add(const RecordedStall& stall) noexcept {
  add_one(stall);
}

void Recording::add(const Decision& decision) noexcept {
  add_one(decision);
}

void Recording::flush(Time now) noexcept {
  const MutexLock lock(mutex_);
  if (now - flushed_ < flush_period_) return;
  flushed_ = now;
  hand_over();
}

bool Recording::write_all(TimePoint deadline) noexcept {
  {
    const MutexLock lock(mutex_);
    hand_over();
  }
  return queue_.drain_until(deadline);
}

RecordingStats Recording::stats() const {
  RecordingStats stats;
  stats.records_lost = queue_.dropped().records;
  if (files_) {
    stats.records_lost += files_->records_lost();
    stats.write_failures = files_->failures();
    stats.bytes_written = files_->bytes_written();
  }
  const MutexLock lock(mutex_);
  stats.records = records_;
  stats.records_lost += lost_;
  return stats;
}

}  // namespace vma
