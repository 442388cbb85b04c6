#pragma once

#include <cstdint>
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

}  // namespace vma
