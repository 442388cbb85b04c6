#pragma once

#include "machine/machine_problem.hpp"

#include <boost/json/object.hpp>

namespace vma {

/// Finds contradictions between values of a machine file that are valid individually: counts that
/// do not match, tables without a cell for each size, rates without a link. Requires:
/// `check_schema` reports no problems.
MachineProblems check_consistency(const boost::json::object& file);

}  // namespace vma
