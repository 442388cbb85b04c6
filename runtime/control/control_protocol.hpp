#pragma once

#include "control/control_target.hpp"

#include <string>
#include <string_view>

namespace vma {

/// Maximum number of entries in a list of an answer; further entries need another request.
constexpr std::size_t control_page_max = 512;

struct ControlAnswer {
  std::string line;      ///< JSON, followed by a newline.
  bool garbage = false;  ///< The request was not a JSON object that names a command.
};

/// Answers one request; exceptions of the target end here. `docs/guide/control.md` describes
/// requests and answers. Throws: only std::bad_alloc, if there is no memory for an answer.
ControlAnswer answer_request(ControlTarget& target, std::string_view line);

/// An answer line that describes an error.
std::string control_error_line(std::string_view kind, std::string_view message);

}  // namespace vma
