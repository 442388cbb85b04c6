#include "recording/recording.hpp"

#include "base/log.hpp"
#include "recording/block_builder.hpp"
#include "recording/recording_format.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vma {
namespace {

constexpr int names_tried_max = 10'000;  // Allows for files of earlier processes with the same id.

RecordingHeader of_this_process(RecordingHeader header) {
  header.process = static_cast<std::uint32_t>(::getpid());
  header.file = header.first_file = 1;
  return header;
}

}  // namespace

RecordingFiles::RecordingFiles(std::string directory, RecordingHeader header,
                               std::uint64_t file_bytes_max)
    : directory_(std::move(directory)),
      header_(std::move(header)),
      machine_json_(write_machine_json(header_)),
      file_bytes_max_(file_bytes_max),
      next_file_(header_.file) {}

/// Counts a failure and returns false. Logs only the first one: later ones have the same cause or
/// follow from it.
bool RecordingFiles::failed(int error, const std::string& path) noexcept {
  if (failures_.fetch_add(1, std::memory_order_relaxed) == 0) {
    log(LogLevel::warn, "cannot write the recording {}: {}; lost records are counted", path,
        std::system_category().message(error));
  }
  return false;
}

/// Returns 0 or an error number. If the header cannot be written, removes the file again, so that
/// empty files do not accumulate on a full disk.
int RecordingFiles::open_next() {
  std::error_code ignored;  // Opening the file reports any error.
  std::filesystem::create_directories(directory_, ignored);
  int error = EEXIST;
  for (int tries = 0; error == EEXIST && tries < names_tried_max; ++tries) {
    header_.file = next_file_++;
    error = file_.open(fmt::format("{}/vmart-{}-{}.rec", directory_, header_.process, header_.file),
                       OutputFile::Existing::refuse);
  }
  if (error != 0) {
    next_file_ = header_.file;
    return error;
  }
  if (!opened_any_) header_.first_file = header_.file;
  error = file_.write(write_recording_header(header_, machine_json_));
  if (error != 0) {
    file_.close();
    ::unlink(file_.path().c_str());
    next_file_ = header_.file;
    return error;
  }
  opened_any_ = true;
  return 0;
}

/// Whether a file is open with room for `bytes` more, or for its first block.
bool RecordingFiles::ready(std::size_t bytes) {
  const std::uint64_t header_bytes = recording_file.header_bytes() + machine_json_.size();
  const bool full = file_.is_open() && file_.size_bytes() > header_bytes &&
                    file_.size_bytes() + bytes > file_bytes_max_;
  if (full || file_.is_gone()) file_.close();
  if (file_.is_open()) return true;
  const int error = open_next();
  return error == 0 || failed(error, file_.path());
}

bool RecordingFiles::write_frame(const DiskBlock& block) {
  const auto head = block_head(recording_block, block.bytes, block.records);
  std::vector<std::uint8_t> frame(head.begin(), head.end());
  frame.insert(frame.end(), block.bytes.begin(), block.bytes.end());
  if (!ready(frame.size())) return false;
  if (const int error = file_.write(frame)) return failed(error, file_.path());
  bytes_.fetch_add(frame.size(), std::memory_order_relaxed);
  return true;
}

bool RecordingFiles::tell_gap() {
  if (untold_ == Loss{}) return true;
  BlockBuilder builder;
  builder.add(RecordedGap{untold_.records, untold_.blocks});
  if (!write_frame({builder.take(), 1})) return false;
  untold_ = {};
  return true;
}

bool RecordingFiles::try_write(const DiskBlock& block) {
  return tell_gap() && write_frame(block);
}

void RecordingFiles::write(const DiskBlock& block, const Loss& lost_before) noexcept {
  untold_ += lost_before;
  bool written = false;
  try {
    written = try_write(block);
  } catch (const std::exception&) {  // Out of memory.
    failed(ENOMEM, directory_);
  }
  if (written) return;
  untold_ += {block.records, 1};
  lost_.fetch_add(block.records, std::memory_order_relaxed);
}

void RecordingFiles::finish(const Loss& lost_before) noexcept {
  untold_ += lost_before;
  try {
    tell_gap();
  } catch (const std::exception&) {
    failed(ENOMEM, directory_);
  }
  file_.close();
}

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
  return queue_.flush_until(deadline);
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
