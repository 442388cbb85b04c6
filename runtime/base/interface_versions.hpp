#pragma once

namespace vma {

// The versions that parts of vmart of different builds tell each other; docs/reference/versions.md
// says when each grows.

/// The version of vmart in which the C interface last grew: the newest one in vmart.map.
constexpr const char* c_interface = "0.2";
/// The control socket: grows when a request or an answer is taken away or changes.
constexpr int control_protocol = 1;
/// What the lab's Python asks `vmart-lab cells`: as `PROTOCOL` of `vmart.lab.experiments`.
constexpr int lab_protocol = 2;

}  // namespace vma
