#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace vma {

// What `vmart run` and `vmart simulate` do to become a program. `call` names the command in errors.

/// The folder that this program lies in.
std::filesystem::path tool_folder();
/// A file beside that folder, installed or in a build tree. None if it is not there.
std::optional<std::string> own_file(const char* name);

/// Sets a variable of the environment. Throws: Error{out_of_memory}.
void set_variable(const char* name, const std::string& value, bool replace = true);
/// Whether it is set and not empty.
bool is_set(const char* name);
/// Puts `first` before what a variable lists, with a colon between them.
void set_first(const char* list, const std::string& first);

/// Becomes the program, with its arguments. Returns 127 if there is no such program, and 126 if it
/// cannot be run, after a line on standard error.
int become(const char* call, const std::vector<std::string>& program);

}  // namespace vma
