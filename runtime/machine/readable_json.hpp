#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <string>

namespace vma {

/// Human-readable JSON. Numbers from 1e-9 to 1e15 have no exponent, unlike those of Boost.JSON:
/// 0.0000416578. A list or object that does not fit into `columns` gets a line per element; by
/// default, everything is on one line.
std::string readable_json(const boost::json::value& value, std::size_t columns = std::string::npos);

}  // namespace vma
