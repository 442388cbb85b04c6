#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vma {

/// A file that is written sequentially and whose failures must not affect the program. Failures are
/// returned as error numbers, a closed pipe or a file size limit raises no signal, and writing to a
/// pipe without a reader is given up after a moment. Not thread-safe.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  enum class Existing { append, refuse };
  /// Closes a file that is already open. Returns 0 or an error number.
  int open(const std::string& path, Existing existing) noexcept;
  /// Writes all bytes or, if the file can be truncated, none. Returns 0 or an error number.
  int write(std::span<const std::uint8_t> bytes) noexcept;
  void close() noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  /// Whether it is a file on disk, which can be renamed and truncated, rather than a pipe or
  /// device.
  bool is_regular() const noexcept { return regular_; }
  /// Whether the file was removed, so that further output would be lost.
  bool is_gone() const noexcept;
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  const std::string& path() const noexcept { return path_; }

 private:
  int write_all(std::span<const std::uint8_t> bytes) noexcept;

  int fd_ = -1;  // -1 if not open.
  bool regular_ = false;
  std::uint64_t size_bytes_ = 0;
  std::string path_;
};

}  // namespace vma
