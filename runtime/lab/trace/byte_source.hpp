#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace vma {

/// The bytes of a file, one after the other; those of a compressed one (gzip) as they were before.
/// Not thread-safe.
class ByteSource {
 public:
  /// "-" is the standard input. Throws: Error{invalid_argument} that names a file which cannot be
  /// read.
  explicit ByteSource(std::string path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// How many bytes came; 0 at the end only. Throws: Error{invalid_argument} that names the file,
  /// for what cannot be read or is damaged.
  std::size_t read(std::span<char> bytes);
  const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Whether this build reads compressed files.
bool reads_compressed() noexcept;

}  // namespace vma
