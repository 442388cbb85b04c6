#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/object.hpp>

namespace vma {

/// What is wrong between the values of a machine file, each of which is right by itself: counts
/// that do not go together, tables without a cell for each size, rates where there is no link.
/// Requires: `check_schema` finds nothing wrong.
MachineProblems check_consistency(const boost::json::object& file);

}  // namespace vma
