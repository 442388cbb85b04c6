#pragma once

#include "driver/driver.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace vma {

/// The parameters that PTX declares for an entry, laid out as on a GPU. None if the text does not
/// declare it, or in an unsupported form: PTX from compilers is supported, which begins each
/// parameter with `.param`.
std::optional<std::vector<ParameterInfo>> ptx_parameters(std::string_view ptx,
                                                         std::string_view entry);

}  // namespace vma
