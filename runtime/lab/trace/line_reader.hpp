#pragma once

#include "lab/trace/byte_source.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Reads a text file line by line through a window; the file may be compressed. Not thread-safe.
class LineReader {
 public:
  static constexpr std::size_t line_bytes_max = std::size_t{256} << 10;

  /// "-" is the standard input. Throws: Error{invalid_argument} with the file, if it cannot be
  /// read.
  explicit LineReader(const std::string& path);

  /// Returns the next line without its line ending (LF or CR LF), and nothing after the last. Valid
  /// until the next call. A line longer than `line_bytes_max` is truncated; `cut` then returns
  /// true. Throws: Error{invalid_argument}.
  std::optional<std::string_view> next();
  /// Number of the line that `next` returned, counted from 1.
  std::uint64_t line() const noexcept { return line_; }
  bool cut() const noexcept { return cut_; }
  const std::string& path() const noexcept { return source_.path(); }

 private:
  bool fill();
  std::string_view give(std::size_t end);
  void skip_line();

  ByteSource source_;
  std::vector<char> window_;
  std::size_t begin_ = 0, end_ = 0;  // The part of the window that was not returned yet.
  std::uint64_t line_ = 0;
  bool cut_ = false;
};

}  // namespace vma
