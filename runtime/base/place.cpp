#include <vma/place.hpp>

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace vma::inline v1 {
namespace {

struct KindName {
  std::string_view name;
  Place::Kind kind;
  bool alone;  ///< Without a number it means number 0.
};

/// vmart's names, and those of PyTorch, CuPy and JAX. "gpu" alone could mean any of several GPUs;
/// "cuda" and "cpu" are complete names in those libraries.
constexpr KindName kind_names[] = {
    {"gpu", Place::Kind::gpu, false},
    {"cuda", Place::Kind::gpu, true},
    {"host", Place::Kind::host, true},
    {"cpu", Place::Kind::host, true},
};

bool begins_with(std::string_view text, std::string_view lower_case) noexcept {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return text.size() >= lower_case.size() &&
         std::ranges::equal(text.substr(0, lower_case.size()), lower_case, {}, lower);
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::invalid_argument, "vma::parse_place",
              fmt::format("\"{}\" is not a place; write gpu0, gpu1, ... for the memory of a GPU or "
                          "host0, host1, ... for that of a host NUMA node",
                          text));
}

}  // namespace

std::string to_string(Place place) {
  return fmt::format("{}({})", place.kind == Place::Kind::gpu ? "gpu" : "host", place.ordinal);
}

Place parse_place(const std::string& text) {
  const auto* const named = std::ranges::find_if(
      kind_names, [&](const KindName& each) { return begins_with(text, each.name); });
  if (named == std::end(kind_names)) refuse(text);
  Place place{named->kind, 0};
  std::string_view rest = std::string_view(text).substr(named->name.size());
  if (rest.empty() && named->alone) return place;
  if (rest.starts_with('(') && rest.ends_with(')')) {
    rest = rest.substr(1, rest.size() - 2);
  } else if (rest.starts_with(':')) {
    rest.remove_prefix(1);
  }
  const char* const end = rest.data() + rest.size();
  const auto [stopped, failed] = std::from_chars(rest.data(), end, place.ordinal);
  if (failed != std::errc() || stopped != end || place.ordinal < 0) refuse(text);
  return place;
}

}  // namespace vma::inline v1
