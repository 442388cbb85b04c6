#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vma {

/// A file written sequentially by a program that must not notice failures: failures are returned as
/// error numbers, a closed pipe or a file size limit raises no signal, and a pipe without a reader
/// is given up after a moment. Not thread-safe.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  enum class Existing { append, refuse };
  /// Closes a previously open file. Returns 0 or an error number.
  int open(const std::string& path, Existing existing) noexcept;
  /// Writes all of it or, if the file can be truncated, nothing. Returns 0 or an error number.
  int write(std::span<const std::uint8_t> bytes) noexcept;
  void close() noexcept;

  bool is_open() const noexcept { return fd_ >= 0; }
  /// A file on a disk, which can be renamed and truncated; not a pipe or device.
  bool is_regular() const noexcept { return regular_; }
  /// The file was removed: further output would be lost.
  bool is_gone() const noexcept;
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  const std::string& path() const noexcept { return path_; }

 private:
  int write_all(std::span<const std::uint8_t> bytes) noexcept;

  int fd_ = -1;  // -1: not open.
  bool regular_ = false;
  std::uint64_t size_bytes_ = 0;
  std::string path_;
};

}  // namespace vma
