#pragma once

#include "lab/replay/replay_machine.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace vma {

/// A checksum that detects changes, but not manipulation (FNV-1a).
class ContentSum {
 public:
  void add(std::string_view bytes) noexcept;
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  std::uint64_t sum_ = 14695981039346656037u;
};

/// The checksum of a file. Throws: Error{invalid_argument} if the file cannot be read.
std::string sum_of_file(const std::string& path);
/// The checksum of everything about a machine that affects a replay; this excludes its name.
std::string sum_of_machine(const ReplayMachine& machine);

}  // namespace vma
