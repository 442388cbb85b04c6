#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/array.hpp>

#include <string>

namespace vma {

struct WhereCommand {
  std::string what;    ///< Empty: all.
  bool sites = false;  ///< Also where the program allocated them; JSON has that in any case.
  bool json = false;
};

/// Prints a runtime's allocations, or where the bytes of those that `what` selects are. Returns 0.
/// Throws: like ControlClient.
int run_where(const ControlChoice& choice, const WhereCommand& command);

/// Allocations that `what` selects; all if it is empty. Throws: like ControlClient.
boost::json::array list_allocations(ControlClient& client, const std::string& what);

}  // namespace vma
