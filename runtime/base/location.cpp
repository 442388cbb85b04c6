#include <vma/location.hpp>

#include <vma/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace vma::inline v1 {

std::string to_string(Location location) {
  return fmt::format("{}({})", location.kind == Location::Kind::gpu ? "gpu" : "host",
                     location.ordinal);
}

Location parse_location(const std::string& text) {
  Location location;
  std::string_view rest = text;
  if (rest.starts_with("gpu")) {
    rest.remove_prefix(3);
  } else if (rest.starts_with("host")) {
    location.kind = Location::Kind::host;
    rest.remove_prefix(4);
  } else {
    throw Error(ErrorKind::invalid_argument, "parse_location",
                fmt::format("\"{}\" is not a location; write gpu(0) or host(0)", text));
  }
  if (rest.starts_with('(') && rest.ends_with(')')) {
    rest = rest.substr(1, rest.size() - 2);
  } else if (rest.starts_with(':')) {
    rest.remove_prefix(1);
  }
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), location.ordinal);
  if (error != std::errc() || end != rest.data() + rest.size() || location.ordinal < 0) {
    throw Error(ErrorKind::invalid_argument, "parse_location",
                fmt::format("\"{}\" is not a location; write gpu(0) or host(0)", text));
  }
  return location;
}

}  // namespace vma::inline v1
