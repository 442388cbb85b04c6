#pragma once

#include <string>

namespace vma {

/// A folder in which programs find the shim under the driver's name, and the shim finds the
/// driver's library: for LD_LIBRARY_PATH. It stays, and serves all programs of this user that run
/// with these two libraries. It is beside the calibrations or in `own_folder()`, where no other
/// user can change it. Throws: Error{no_driver}, and Error{unsupported} if there is no such folder.
std::string driver_shim_folder(const std::string& shim);

}  // namespace vma
