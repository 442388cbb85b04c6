#pragma once

#include <vma/error.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// A file that is made under another name and takes its own once all of it is on the disk: who
/// opens that sees what was there before or the whole. Removed unless it comes so far. Not
/// thread-safe.
///
/// A link is followed. A pipe or a device cannot be replaced, and is written to at once.
class WholeFile {
 public:
  /// How it fails, and who may read it.
  struct Terms {
    std::string call;
    ErrorKind kind = ErrorKind::invalid_argument;
    unsigned mode = 0600;
    /// Where it could be made, and then not be written. Not set: `kind`.
    std::optional<ErrorKind> write_kind{};
  };

  /// Makes a file that begins with this path. Throws: Error of the terms, as the others do.
  WholeFile(const std::string& beside, Terms terms);
  /// Throws: Error of the terms, if none could become `file` now. Leaves nothing.
  static void require_possible(const std::string& file, const Terms& terms);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view text);
  /// Requires: `file` is on the same disk; if what was given at first is a pipe or a device, it is
  /// `file`.
  void become(const std::string& file);
  /// The same, unless the name is taken: false. Of several who try only one gets it.
  bool become_first(const std::string& file);

 private:
  void sync();
  [[noreturn]] void refuse(const std::string& file, ErrorKind kind) const;
  [[noreturn]] void refuse_write(const std::string& file) const;

  Terms terms_;
  std::string beside_;
  std::string path_;  // Empty once it has become another, and for a pipe or a device.
  int descriptor_ = -1;
};

}  // namespace vma
