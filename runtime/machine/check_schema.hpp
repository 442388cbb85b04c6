#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/value.hpp>

#include <set>
#include <string>
#include <vector>

namespace vma {

/// The contents of a machine file by path, and its formal problems: unknown keys, missing keys,
/// values of the wrong type or out of bounds.
struct SchemaCheck {
  std::set<std::string> paths;  ///< Of every key, and every object in a list.
  /// Keys whose value is a number or a list of numbers, in order.
  std::vector<std::string> numbers;
  MachineProblems problems;
};

SchemaCheck check_schema(const boost::json::value& json);

}  // namespace vma
