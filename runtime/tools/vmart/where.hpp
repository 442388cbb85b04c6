#pragma once

#include "tools/vmart/control_client.hpp"

#include <boost/json/array.hpp>

#include <string>

namespace vma {

/// Prints a runtime's allocations, or where the bytes of one allocation, or of all with a tag, are.
/// Returns 0. Throws: like ControlClient.
int run_where(const ControlChoice& choice, const std::string& what, bool as_json);

/// Whether the text is written like an address; otherwise it is a tag.
bool is_address(const std::string& what);
/// Allocations with the tag; all if it is empty. Throws: std::runtime_error if none has it.
boost::json::array list_allocations(ControlClient& client, const std::string& tag);

}  // namespace vma
