#include "machine/readable_json.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr std::size_t indent_columns = 2;

/// The shortest text that parses to the same number. Very small and very large numbers have
/// an exponent.
std::string number_text(double number) {
  const double size = std::abs(number);
  if (size != 0 && (size < 1e-9 || size >= 1e15)) return fmt::format("{}", number);
  char text[40];
  const auto written =
      std::to_chars(std::begin(text), std::end(text), number, std::chars_format::fixed);
  return {std::begin(text), written.ptr};
}

/// `used` is the number of columns taken on the line before and after the text.
std::string joined(const std::vector<std::string>& parts, const char* brackets, std::size_t columns,
                   std::size_t indent, std::size_t used) {
  const std::string line = fmt::format("{}{}{}", brackets[0], fmt::join(parts, ", "), brackets[1]);
  const bool fits = columns == std::string::npos ||
                    (line.find('\n') == std::string::npos && used + line.size() <= columns);
  if (fits || parts.empty()) return line;
  const std::string begin(indent + indent_columns, ' ');
  return fmt::format("{}\n{}{}\n{:{}}{}", brackets[0], begin, fmt::join(parts, ",\n" + begin), "",
                     indent, brackets[1]);
}

std::string written(const json::value& value, std::size_t columns, std::size_t indent,
                    std::size_t used) {
  const std::size_t inner = indent + indent_columns;
  std::vector<std::string> parts;
  if (const json::object* const object = value.if_object()) {
    for (const auto& [name, member] : *object) {
      const std::string key = json::serialize(json::value(name)) + ": ";
      parts.push_back(key + written(member, columns, inner, inner + key.size() + 1));
    }
    return joined(parts, "{}", columns, indent, used);
  }
  if (const json::array* const array = value.if_array()) {
    for (const json::value& element : *array) {
      parts.push_back(written(element, columns, inner, inner + 1));
    }
    return joined(parts, "[]", columns, indent, used);
  }
  if (const double* const number = value.if_double()) return number_text(*number);
  return json::serialize(value);
}

}  // namespace

std::string readable_json(const json::value& value, std::size_t columns) {
  return written(value, columns, 0, 0);
}

}  // namespace vma
