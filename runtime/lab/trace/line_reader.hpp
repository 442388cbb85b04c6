#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

struct BadLine {
  std::uint64_t line = 0;  ///< Counted from 1.
  std::string reason;
};

/// The unusable lines of one file: counts all, keeps the first ones, and throws if there are too
/// many. Not thread-safe.
class BadLines {
 public:
  static constexpr std::uint64_t count_max = 100;  ///< The default limit.
  static constexpr std::size_t kept_max = 20;

  explicit BadLines(std::string file, std::uint64_t most = count_max);

  /// Throws: Error{invalid_argument} that names the file, this line and the first bad line, if this
  /// line exceeds the limit.
  void add(std::uint64_t line, std::string reason);

  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t most() const noexcept { return most_; }
  std::span<const BadLine> kept() const noexcept { return kept_; }
  const std::string& file() const noexcept { return file_; }

 private:
  std::string file_;
  std::uint64_t most_;
  std::uint64_t count_ = 0;
  std::vector<BadLine> kept_;
};

/// Reads a file sequentially, and decompresses it if it is compressed (gzip). Not thread-safe.
class ByteSource {
 public:
  /// "-" is the standard input. Throws: Error{invalid_argument} with the file, if it cannot be
  /// read.
  explicit ByteSource(std::string path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Returns the number of bytes read; 0 only at the end. Throws: Error{invalid_argument} with the
  /// file, if it cannot be read or is damaged.
  std::size_t read(std::span<char> bytes);
  const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Whether this build can read compressed files.
bool reads_compressed() noexcept;

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
