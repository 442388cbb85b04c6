#pragma once

#include "control/control_target.hpp"

#include <string>
#include <string_view>

namespace vma {

/// Most entries of one list in an answer; what is left is asked for by another request.
constexpr std::size_t control_page_max = 512;

struct ControlAnswer {
  std::string line;      ///< JSON, ends in a newline.
  bool garbage = false;  ///< The request was no JSON object that names a command.
};

/// Answers one request, the wall where exceptions of the target end. `docs/guide/control.md`
/// describes requests and answers. Throws: only std::bad_alloc, where there is no memory for an
/// answer.
ControlAnswer answer_request(ControlTarget& target, std::string_view line);

/// A line that says what was wrong.
std::string control_error_line(std::string_view kind, std::string_view message);

}  // namespace vma
