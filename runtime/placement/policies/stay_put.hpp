#pragma once

#include <vma/policy.hpp>

namespace vma::inline v1 {

/// `stay_put`: memory stays where it was put. An allocation gets the default, the fastest place of
/// the device with room; nothing moves. It replaces a policy that misbehaves. Its source is the
/// behaviour of every program without a policy.
PolicyKind stay_put_kind();

}  // namespace vma::inline v1
