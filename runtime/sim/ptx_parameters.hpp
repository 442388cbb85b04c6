#pragma once

#include "driver/driver.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace vma {

/// The parameters that PTX declares for an entry, laid out as on a GPU. Returns nothing if the text
/// does not declare the entry, or uses an unsupported form. Supports PTX as compilers write it,
/// where each parameter begins with `.param`.
std::optional<std::vector<ParameterInfo>> ptx_parameters(std::string_view ptx,
                                                         std::string_view entry);

}  // namespace vma
