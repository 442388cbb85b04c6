#pragma once

#include "lab/import/trace_formats.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Converts small files that a test writes.
class Converting : public testing::Test {
 protected:
  /// Writes `text` to a file of this name and converts it.
  std::vector<ToldEvent> convert(const std::string& format, const std::string& name,
                                 std::string_view text, std::vector<std::string> values = {});
  /// The number and reason of each bad line in the last conversion: "3: is not a time".
  const std::vector<std::string>& bad() const noexcept { return bad_; }

  TemporaryFolder folder_;
  std::uint64_t seed_ = 1;
  std::uint64_t bad_lines_max_ = BadLines::count_max;

 private:
  std::vector<std::string> bad_;
};

}  // namespace vma
