#pragma once

#include <string>
#include <vector>

namespace vma {

/// Replaces this process by `python3 -m vmart.lab ARGUMENTS...`, which finds the Python package
/// beside this program. Returns only if that is impossible: prints what to install, and returns the
/// exit status.
int become_python_module(std::vector<std::string> arguments);

/// The path of this program, for a module that starts it.
std::string own_program();

}  // namespace vma
