#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vma {

/// One environment variable. docs/reference/environment.md shows the table; a test compares the
/// two.
struct EnvironmentVariable {
  enum class Type { text, path, place, word, flag, number, bytes };
  std::string_view name;
  Type type = Type::text;
  std::string_view takes;             ///< What errors say: "a folder", "milliseconds".
  std::string_view otherwise;         ///< The default, in words.
  std::uint64_t least = 0, most = 0;  ///< For a number.
};

/// All variables that the library and its tools read.
std::span<const EnvironmentVariable> environment_variables() noexcept;

// The value of a variable of the table; none if it is not set, or empty. Each throws Error
// {invalid_argument} that names the variable, its value and what it takes.

/// Any text.
std::optional<std::string> environment_text(std::string_view name);
/// A file or folder; none also for a word that means no. A word that means yes is refused.
std::optional<std::string> environment_path(std::string_view name);
/// Like `environment_path`, but yes is "auto".
std::optional<std::string> environment_place(std::string_view name);
/// 1, yes, on, true; 0, no, off, false.
std::optional<bool> environment_flag(std::string_view name);
/// Within the limits of the table.
std::optional<std::uint64_t> environment_number(std::string_view name);
/// Parsed by `parse_size`.
std::optional<std::uint64_t> environment_bytes(std::string_view name);

/// What the variable takes, with the limits of a number.
std::string environment_takes(std::string_view name);
/// Throws: Error{invalid_argument} which says that `what` is `text`, and what it takes instead.
[[noreturn]] void refuse_setting(std::string_view what, std::string_view text,
                                 std::string_view takes);
/// 1, yes, on, true, auto; 0, no, off, false. None for any other word. Ignores case.
std::optional<bool> yes_or_no(std::string_view text) noexcept;
/// "4096", "64MiB", "4G"; the suffixes are binary. Throws: Error{invalid_argument} that names
/// `what`.
std::uint64_t parse_size(const std::string& text, const std::string& what);

/// A variable in the environment that begins with VMART_ but that the library does not read, with
/// the nearest name of the table, empty if none is near.
struct UnknownVariable {
  std::string name, nearest;
};
/// Logs those of this process, once.
void warn_of_unknown_variables();
std::optional<UnknownVariable> unknown_variable(std::string_view name);

}  // namespace vma
