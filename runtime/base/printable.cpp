#include "base/printable.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <iterator>

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

std::string place_name(Place at) {
  return fmt::format("{}{}", at.kind == Place::Kind::gpu ? "gpu" : "host", at.ordinal);
}

std::string with_place_names(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  constexpr std::string_view kinds[] = {"gpu(", "host("};
  std::string written;
  while (!text.empty()) {
    std::size_t taken = 1, kept = 1;  // Letters of the text, and those of them that stay.
    for (const std::string_view kind : kinds) {
      if (!text.starts_with(kind)) continue;
      const std::size_t end = text.find_first_not_of(digits, kind.size());
      if (end == kind.size() || end == std::string_view::npos || text[end] != ')') continue;
      written += kind.substr(0, kind.size() - 1);
      written += text.substr(kind.size(), end - kind.size());
      taken = end + 1;
      kept = 0;
    }
    written += text.substr(0, kept);
    text.remove_prefix(taken);
  }
  return written;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

}  // namespace vma
