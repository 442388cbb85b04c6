#include "recording/decision_file.hpp"

#include "base/log.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace vma {

DecisionFile::DecisionFile(std::string path, std::uint64_t bytes_max)
    : path_(std::move(path)), full_path_(path_ + ".1"), bytes_max_(bytes_max) {}

/// Counts a failure, logs the first one, and returns false.
bool DecisionFile::failed(int error) noexcept {
  if (failures_.fetch_add(1, std::memory_order_relaxed) == 0) {
    log(LogLevel::warn, "cannot write decisions to {}: {}; lost entries are counted", path_,
        std::system_category().message(error));
  }
  return false;
}

/// Whether the file is open and has room for `bytes` more. If a full file cannot be renamed,
/// nothing more is written to it, so that the limit holds.
bool DecisionFile::ready(std::size_t bytes) noexcept {
  if (file_.is_gone()) file_.close();
  if (!file_.is_open()) {
    const int error = file_.open(path_, OutputFile::Existing::append);
    if (error != 0) return failed(error);
  }
  const bool full = file_.size_bytes() > 0 && file_.size_bytes() + bytes > bytes_max_;
  if (!file_.is_regular() || !full) return true;
  if (std::rename(path_.c_str(), full_path_.c_str()) != 0) return failed(errno);
  const int error = file_.open(path_, OutputFile::Existing::append);
  return error == 0 || failed(error);
}

void DecisionFile::write(const DiskBlock& block, const Loss&) noexcept {
  if (ready(block.bytes.size())) {
    const int error = file_.write(block.bytes);
    if (error == 0) return;
    failed(error);
    if (!file_.is_regular()) file_.close();  // A pipe may have another reader next time.
  }
  lost_.fetch_add(block.records, std::memory_order_relaxed);
}

void DecisionFile::finish(const Loss&) noexcept {
  file_.close();
}

}  // namespace vma
