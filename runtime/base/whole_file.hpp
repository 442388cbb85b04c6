#pragma once

#include <vma/error.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// All bytes of a file, which may be empty; none if it cannot be read completely.
std::optional<std::string> read_file(const std::string& path);

/// A file that is written under a temporary name, and renamed once it is complete and on disk:
/// readers see either the old file or the complete new one. Removed if it is not completed. Not
/// thread-safe.
///
/// Follows links. A pipe or a device cannot be replaced, so it is written directly.
class WholeFile {
 public:
  /// How errors are reported, and who may read the file.
  struct Terms {
    std::string call;
    ErrorKind kind = ErrorKind::invalid_argument;
    unsigned mode = 0600;
    /// Kind of error if the file could be created but not written; `kind` if unset.
    std::optional<ErrorKind> write_kind{};
  };

  /// Creates a file whose name begins with `beside`. All functions throw Error as specified by the
  /// terms.
  WholeFile(const std::string& beside, Terms terms);
  /// Throws an Error as above if no file could become `file` now. Leaves nothing behind.
  static void require_possible(const std::string& file, const Terms& terms);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view text);
  /// Replaces the first bytes, written before. Returns false for a pipe or a device.
  bool rewrite_begin(std::string_view text);
  /// Requires: `file` is on the same disk. If the constructor's path is a pipe or a device, `file`
  /// is that path.
  void become(const std::string& file);
  /// Like `become`, but returns false if the name is taken. Only one of several callers succeeds.
  bool become_first(const std::string& file);

 private:
  void sync();
  [[noreturn]] void refuse(const std::string& file, ErrorKind kind) const;
  [[noreturn]] void refuse_write(const std::string& file) const;

  Terms terms_;
  std::string beside_;
  std::string path_;  // Empty once renamed, and for pipes and devices.
  int descriptor_ = -1;
};

}  // namespace vma
