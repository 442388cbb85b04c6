#include "tools/vmart/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace vma {

std::vector<std::string> TextTable::lines(std::size_t width) const {
  std::vector<std::size_t> widths;
  std::size_t shown = 0, used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t wide = std::max(columns_[i].width, columns_[i].title.size());
    for (const auto& row : rows_) wide = std::max(wide, row[i].size());
    const std::size_t taken = wide + (i > 0 ? 1 : 0);
    if (i > 0 && used + taken > width) break;
    widths.push_back(wide);
    used += taken;
    ++shown;
  }
  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      text += i == 0 ? fmt::format("{:<{}}", cell(i), widths[i])
                     : fmt::format(" {:>{}}", cell(i), widths[i]);
    }
    return std::string(first_letters(text, width));
  };
  std::vector<std::string> lines{line([&](std::size_t i) { return columns_[i].title; })};
  for (const auto& row : rows_) lines.push_back(line([&](std::size_t i) { return row[i]; }));
  return lines;
}

std::string TextTable::text() const {
  std::string text;
  for (const std::string& line : lines(std::numeric_limits<std::size_t>::max()))
    text += line + "\n";
  return text;
}

std::string_view first_letters(std::string_view text, std::size_t width) {
  std::size_t letters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && letters++ == width) return text.substr(0, i);
  }
  return text;
}

}  // namespace vma
