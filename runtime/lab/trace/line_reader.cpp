#include "lab/trace/line_reader.hpp"

#include <cstring>

namespace vma {

// Twice the limit: a line of maximum length fits wherever it begins in the window.
LineReader::LineReader(const std::string& path) : source_(path), window_(2 * line_bytes_max) {}

/// Moves the unread bytes to the front and reads more after them. Returns false at the end of the
/// file.
bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t bytes = source_.read({window_.data() + end_, window_.size() - end_});
  end_ += bytes;
  return bytes > 0;
}

std::string_view LineReader::give(std::size_t end) {
  std::string_view line(window_.data() + begin_, end - begin_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++line_;
  begin_ = end;
  return line;
}

/// Skips the rest of a truncated line, including its line ending.
void LineReader::skip_line() {
  for (;;) {
    const char* const from = window_.data() + begin_;
    const void* const found = std::memchr(from, '\n', end_ - begin_);
    if (found != nullptr) {
      begin_ += static_cast<std::size_t>(static_cast<const char*>(found) - from) + 1;
      return;
    }
    begin_ = end_;
    if (!fill()) return;
  }
}

std::optional<std::string_view> LineReader::next() {
  if (cut_) skip_line();
  cut_ = false;
  // Each pass searches only the bytes that the last read added.
  for (std::size_t seen = 0;;) {
    const char* const from = window_.data() + begin_ + seen;
    const void* const found = std::memchr(from, '\n', end_ - begin_ - seen);
    if (found != nullptr) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - window_.data());
      if (end - begin_ > line_bytes_max) break;
      const std::string_view line = give(end);
      ++begin_;
      return line;
    }
    seen = end_ - begin_;
    if (seen > line_bytes_max) break;
    if (fill()) continue;
    if (begin_ == end_) return std::nullopt;
    return give(end_);
  }
  cut_ = true;
  return give(begin_ + line_bytes_max);
}

}  // namespace vma
