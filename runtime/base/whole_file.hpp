#pragma once

#include <vma/error.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// A file that is written under another name and renamed once it is complete and on disk: readers
/// see either the former file or the complete new one. Removed if it is not completed. Not
/// thread-safe.
///
/// Links are followed. A pipe or a device cannot be replaced, and is written to directly.
class WholeFile {
 public:
  /// How it fails, and who may read it.
  struct Terms {
    std::string call;
    ErrorKind kind = ErrorKind::invalid_argument;
    unsigned mode = 0600;
    /// Kind of error if the file could be created, but not written. Not set: `kind`.
    std::optional<ErrorKind> write_kind{};
  };

  /// Creates a file whose name begins with `beside`. Throws: Error of the terms, as the others do.
  WholeFile(const std::string& beside, Terms terms);
  /// Throws: Error of the terms, if no file could become `file` now. Leaves nothing behind.
  static void require_possible(const std::string& file, const Terms& terms);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view text);
  /// Requires: `file` is on the same disk; if the constructor's path is a pipe or a device, it is
  /// `file`.
  void become(const std::string& file);
  /// Like `become`, but returns false if the name is taken. Of several callers only one succeeds.
  bool become_first(const std::string& file);

 private:
  void sync();
  [[noreturn]] void refuse(const std::string& file, ErrorKind kind) const;
  [[noreturn]] void refuse_write(const std::string& file) const;

  Terms terms_;
  std::string beside_;
  std::string path_;  // Empty once renamed, and for a pipe or a device.
  int descriptor_ = -1;
};

}  // namespace vma
