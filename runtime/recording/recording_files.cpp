#include "recording/recording_files.hpp"

#include "base/log.hpp"
#include "recording/block_builder.hpp"
#include "recording/recording_format.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace vma {
namespace {

constexpr int names_tried_max = 10'000;  // Allows for files of earlier processes with the same id.

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

}  // namespace vma
