#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/value.hpp>

#include <set>
#include <string>
#include <vector>

namespace vma {

/// The contents of a machine file, by paths, and its faults in form: unknown keys, missing keys,
/// values of another type or out of bounds.
struct SchemaCheck {
  std::set<std::string> paths;       ///< Of every key, and every object in a list.
  std::vector<std::string> numbers;  ///< Of keys with a number or a list of numbers, in order.
  MachineProblems problems;
};

SchemaCheck check_schema(const boost::json::value& json);

}  // namespace vma
