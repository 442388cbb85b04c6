#pragma once

namespace vma {

/// As `ioctl`; fails with EBADF for a descriptor of the system's.
using Ioctl = int (*)(int descriptor, unsigned long request, void* argument);

}  // namespace vma

/// `answer` gets the calls that the library makes from here on, before the system does.
extern "C" void simcuda_answer_ioctl(vma::Ioctl answer) noexcept;
