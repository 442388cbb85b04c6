#include "placement/policies/policy_text.hpp"

#include "base/units.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace vma {
namespace {

using Type = PolicyParameter::Type;
using Unit = std::pair<std::string_view, double>;

constexpr std::array durations{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"ns", 1e-9}};
constexpr std::array sizes{
    Unit{"", 1},
    Unit{"B", 1},
    Unit{"KiB", static_cast<double>(KiB)},
    Unit{"MiB", static_cast<double>(MiB)},
    Unit{"GiB", static_cast<double>(GiB)},
    Unit{"TiB", 1024.0 * static_cast<double>(GiB)},
};
constexpr std::array plain{Unit{"", 1}};

std::string_view name_of(Type type) {
  switch (type) {
    case Type::number: return "number";
    case Type::duration: return "duration";
    case Type::size: return "size";
    case Type::count: return "count";
    case Type::flag: return "flag";
  }
  return "?";
}

std::span<const Unit> units_of(Type type) {
  if (type == Type::duration) return durations;
  if (type == Type::size) return sizes;
  return plain;
}

std::string write(double value, Type type) {
  if (type == Type::flag) return value != 0 ? "true" : "false";
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (type == Type::count) return fmt::format("{:.0f}", value);
  if (type == Type::number) return fmt::format("{}", value);
  // The largest unit that the value contains, or the smallest unit.
  const Unit* unit = nullptr;
  for (const Unit& each : units_of(type)) {
    const bool fits = value >= each.second;
    const bool smaller = unit == nullptr || each.second < unit->second;
    const bool greater = unit == nullptr || each.second > unit->second;
    const bool unit_fits = unit != nullptr && value >= unit->second;
    if (fits ? (!unit_fits || greater) : (!unit_fits && smaller)) unit = &each;
  }
  if (value == 0) return type == Type::duration ? "0s" : "0";
  return fmt::format("{}{}", value / unit->second, unit->first);
}

std::optional<double> read(std::string_view text, Type type) {
  if (type == Type::flag) {
    if (text == "true" || text == "1") return 1;
    if (text == "false" || text == "0") return 0;
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, scale] : units_of(type)) {
    if (suffix == name) return value * scale;
  }
  if (type == Type::duration && suffix.empty() && value == 0) return 0;
  return std::nullopt;
}

[[noreturn]] void refuse(const PolicyKind& kind, const std::string& what) {
  throw Error(ErrorKind::invalid_argument, "policy",
              fmt::format("{}; {} takes{}", what, kind.name,
                          kind.parameters.empty() ? std::string(" no parameters")
                                                  : ":\n" + describe_parameters(kind)));
}

void parse_one(const PolicyKind& kind, std::string_view item, std::set<std::string>& named,
               PolicyValues& values) {
  const std::size_t sign = item.find('=');
  if (sign == std::string_view::npos || sign == 0) {
    refuse(kind, fmt::format("'{}' is not parameter=value", item));
  }
  const std::string name(item.substr(0, sign));
  const std::string_view text = item.substr(sign + 1);
  const PolicyParameter* found = nullptr;
  for (const PolicyParameter& parameter : kind.parameters) {
    if (parameter.name == name) found = &parameter;
  }
  if (found == nullptr) refuse(kind, fmt::format("there is no parameter '{}'", name));
  if (!named.insert(name).second) refuse(kind, fmt::format("'{}' is given twice", name));
  const std::optional<double> value = read(text, found->type);
  if (!value) refuse(kind, fmt::format("{}={} is not a {}", name, text, name_of(found->type)));
  if (found->type == Type::count && *value != std::floor(*value)) {
    refuse(kind, fmt::format("{}={} is not a whole number", name, text));
  }
  if (*value < found->least || *value > found->most) {
    refuse(kind, fmt::format("{}={} is out of bounds", name, text));
  }
  values.set(name, *value);
}

}  // namespace

PolicyText split_policy_text(const std::string& text) {
  const std::size_t slash = text.rfind('/');
  const std::size_t colon = text.find(':', slash == std::string::npos ? 0 : slash);
  PolicyText split;
  std::string head = text.substr(0, colon);
  if (colon != std::string::npos) split.parameters = text.substr(colon + 1);
  for (std::size_t plus = head.find('+'); plus < head.find_first_of("@/"); plus = head.find('+')) {
    split.arounds.push_back(head.substr(0, plus));
    head = head.substr(plus + 1);
    if (split.arounds.back().empty())
      throw Error(ErrorKind::invalid_argument, "policy", "no name before '+' in '" + text + "'");
  }
  if (head.find('/') != std::string::npos) {
    const std::size_t sign = head.find('@');
    if (sign != std::string::npos && sign < head.find('/')) {
      split.name = head.substr(0, sign);
      head = head.substr(sign + 1);
      if (split.name.empty())
        throw Error(ErrorKind::invalid_argument, "policy", "no name before '@' in '" + text + "'");
    }
    split.path = std::move(head);
  } else {
    split.name = std::move(head);
  }
  if (split.name.empty() && split.path.empty()) {
    throw Error(ErrorKind::invalid_argument, "policy", "'" + text + "' names no policy");
  }
  return split;
}

PolicyValues parse_policy_values(const PolicyKind& kind, const std::string& parameters) {
  PolicyValues values;
  for (const PolicyParameter& parameter : kind.parameters)
    values.set(parameter.name, parameter.otherwise);
  std::set<std::string> named;
  std::string_view rest = parameters;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    parse_one(kind, rest.substr(0, comma), named, values);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) refuse(kind, "a parameter is missing after the last comma");
  }
  return values;
}

ParameterWords words_of(const PolicyParameter& parameter) {
  const Type type = parameter.type;
  return {std::string(name_of(type)), write(parameter.least, type), write(parameter.most, type),
          write(parameter.otherwise, type)};
}

std::string describe_parameters(const PolicyKind& kind) {
  std::string text;
  for (const PolicyParameter& each : kind.parameters) {
    const ParameterWords words = words_of(each);
    text += fmt::format("  {}: {}", each.name, words.type);
    if (each.type != Type::flag) text += fmt::format(", {} to {}", words.min, words.max);
    text += fmt::format(", default {}: {}\n", words.default_value, each.meaning);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace vma
