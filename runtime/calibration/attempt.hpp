#pragma once

#include <vma/error.hpp>

#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Runs one measurement. If it throws, adds "WHAT: REASON" to `failures` and returns false.
/// Throws: Error{driver_gone}.
template <typename Body>
bool attempt(std::vector<std::string>& failures, const std::string& what, Body&& body) {
  try {
    std::forward<Body>(body)();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::driver_gone) throw;
    failures.push_back(what + ": " + error.what());
  }
  return false;
}

}  // namespace vma
