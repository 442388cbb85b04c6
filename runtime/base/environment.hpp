#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vma {

/// One environment variable. docs/reference/environment.md contains the same table; a test compares
/// the two.
struct EnvironmentVariable {
  enum class Type { text, path, place, word, flag, number, bytes };
  std::string_view name;
  Type type = Type::text;
  std::string_view takes;             ///< Valid values, for errors: "a folder", "milliseconds".
  std::string_view otherwise;         ///< The default, in words.
  std::uint64_t least = 0, most = 0;  ///< Limits of a number.
};

/// All variables that the library and its tools read.
std::span<const EnvironmentVariable> environment_variables() noexcept;

/// The value of any variable; null if it is unset. Everything that is read from the environment
/// comes from here: a program that has more rights than its caller (set-user-ID, file capabilities)
/// sees none, because the caller could make it load libraries and write files.
const char* environment_variable(const char* name) noexcept;
/// Whether this process ignores its environment for that reason.
bool ignores_environment() noexcept;

// Each returns the value of a variable in the table; none if it is unset or empty. Throws:
// Error{invalid_argument} that names the variable, its value and the valid values.

/// Any text.
std::optional<std::string> environment_text(std::string_view name);
/// A file or folder. A word that means no also counts as unset; a word that means yes is refused.
std::optional<std::string> environment_path(std::string_view name);
/// Like `environment_path`, but a word that means yes returns "auto".
std::optional<std::string> environment_place(std::string_view name);
/// Accepts 1, yes, on, true, and 0, no, off, false.
std::optional<bool> environment_flag(std::string_view name);
/// Must be within the limits in the table.
std::optional<std::uint64_t> environment_number(std::string_view name);
/// Parsed by `parse_size`.
std::optional<std::uint64_t> environment_bytes(std::string_view name);

/// Valid values of a variable, with the limits of a number.
std::string environment_takes(std::string_view name);
/// Throws: Error{invalid_argument} that says that `what` is `text`, and what it takes instead.
[[noreturn]] void refuse_setting(std::string_view what, std::string_view text,
                                 std::string_view takes);
/// Recognises 1, yes, on, true, auto, and 0, no, off, false. None for any other word. Ignores case.
std::optional<bool> yes_or_no(std::string_view text) noexcept;
/// Parses "4096", "64MiB" or "4G"; all suffixes are binary. Throws: Error{invalid_argument} that
/// names `what`.
std::uint64_t parse_size(const std::string& text, const std::string& what);

/// A variable in the environment that begins with VMART_ but is not in the table, with the nearest
/// name in the table; empty if none is near.
struct UnknownVariable {
  std::string name, nearest;
};
std::optional<UnknownVariable> unknown_variable(std::string_view name);

}  // namespace vma
