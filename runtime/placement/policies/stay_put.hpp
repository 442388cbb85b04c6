#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `stay_put`: memory lies where it was put. On allocation it lets the default stand, which is the
/// fastest place of the device with room; it moves nothing. What takes the place of a policy that
/// misbehaves. Its source is what every program without a policy does.
PolicyKind stay_put_kind();

}  // namespace vma::inline v1
