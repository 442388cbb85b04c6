#pragma once

#include <string>

namespace vma {

/// A folder in which programs find the shim under the driver's name, and the shim finds the
/// driver's library: for LD_LIBRARY_PATH. It stays, and serves all programs of this user that run
/// with these two libraries. Throws: Error{no_driver}, and Error{invalid_argument} if another user
/// has taken its name.
std::string driver_shim_folder(const std::string& shim);

}  // namespace vma
