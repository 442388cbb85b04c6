#include "base/printable.hpp"

#include <cstddef>

namespace vma {
namespace {

std::string without_controls(std::string_view text, bool keep_lines) {
  constexpr unsigned char second_page = 0xC2;  // First byte of U+0080 to U+00BF.
  std::string shown(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    const auto next = static_cast<unsigned char>(i + 1 < shown.size() ? shown[i + 1] : 0);
    if (keep_lines && byte == '\n') continue;
    if (byte < 0x20 || byte == 0x7F) shown[i] = '?';
    if (byte == second_page && next >= 0x80 && next < 0xA0) shown[i] = shown[i + 1] = '?';
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) {
  return without_controls(text, false);
}

std::string printable_lines(std::string_view text) {
  return without_controls(text, true);
}

}  // namespace vma
