#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace vma {

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

}  // namespace vma
