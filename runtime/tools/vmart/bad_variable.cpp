#include "tools/vmart/bad_variable.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <utility>

namespace vma {
namespace {

/// Names and values of the variables to test. Leaves out VMART_DRIVER: without it, the report would
/// describe another driver.
std::vector<std::pair<std::string, std::string>> variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || !text.starts_with("VMART_")) continue;
    const std::string name = text.substr(0, equals);
    if (name != "VMART_DRIVER") found.emplace_back(name, text.substr(equals + 1));
  }
  return found;
}

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace

void VariableBlame::run(const std::function<void()>& body) {
  std::optional<Error> error = error_of(body);
  while (error) {
    bool found = false;
    for (const auto& [name, value] : variables()) {
      unsetenv(name.c_str());
      std::optional<Error> without = error_of(body);
      if (without && std::string_view(without->what()) == error->what()) {
        setenv(name.c_str(), value.c_str(), 1);
        continue;
      }
      problems_.push_back(fmt::format(
          "{}; correct or unset {}, which is \"{}\" (the rest of this report ignores it)",
          error->what(), name, value));
      error = std::move(without);  // Another variable may be invalid too.
      found = true;
      break;
    }
    if (!found) throw *error;
  }
}

}  // namespace vma
