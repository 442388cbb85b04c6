#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// One thing that a converter or generator assumes, and may be told otherwise. All are numbers, the
/// unit is at the end of the name.
struct TraceParameter {
  std::string_view name;
  double otherwise = 0, least = 0, most = 0;
  std::string_view meaning;
  bool whole = true;  ///< No fractions.
};

/// The values of all parameters of one converter or generator.
class TraceValues {
 public:
  /// `given` is a list of "name=value"; what it does not name is as `TraceParameter` says. Throws:
  /// Error{invalid_argument} that names what is wrong, and lists the parameters.
  TraceValues(std::span<const TraceParameter> parameters, std::span<const std::string> given);

  /// Requires: there is such a parameter.
  double operator[](std::string_view name) const { return values_.find(name)->second; }
  std::uint64_t whole(std::string_view name) const {
    return static_cast<std::uint64_t>((*this)[name]);
  }
  /// "name=value" of each, in the order of the alphabet: for the header of what was made.
  std::string text() const;

 private:
  std::map<std::string_view, double, std::less<>> values_;
};

/// "kv_bytes: 131072, from 1 to 1e+12: ...", a line each.
std::string describe_parameters(std::span<const TraceParameter> parameters);

}  // namespace vma
