#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// An assumption of a converter or generator that the user can override. All are numbers; the end
/// of the name gives the unit.
struct TraceParameter {
  std::string_view name;
  double otherwise = 0, least = 0, most = 0;
  std::string_view meaning;
  bool whole = true;  ///< No fractions.
};

inline constexpr TraceParameter closed_parameter{
    "closed", 1, 0, 1, "1: tasks wait for each other; 0: open loop, accesses at fixed times"};

inline constexpr TraceParameter hints_parameter{
    "hints", 0, 0, 1, "closed loops: 1: programs announce what they know of their coming uses"};

/// The values of all parameters of one converter or generator.
class TraceValues {
 public:
  /// Parses `given`, a list of "name=value"; other parameters keep their defaults. Throws:
  /// Error{invalid_argument} that names the fault and lists the parameters.
  TraceValues(std::span<const TraceParameter> parameters, std::span<const std::string> given);

  /// Requires: the parameter exists.
  double operator[](std::string_view name) const { return values_.find(name)->second; }
  std::uint64_t whole(std::string_view name) const {
    return static_cast<std::uint64_t>((*this)[name]);
  }
  /// "name=value" for each, in alphabetical order, for the header of the output.
  std::string text() const;

 private:
  std::map<std::string_view, double, std::less<>> values_;
};

/// One line per parameter, such as "kv_bytes: 131072, from 1 to 1e+12: ...".
std::string describe_parameters(std::span<const TraceParameter> parameters);

}  // namespace vma
