#pragma once

#include "lab/trace/bad_lines.hpp"
#include "lab/trace/line_reader.hpp"

#include "machine/json_reader.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Throws the reason why an input line cannot be used, for its reader to count.
[[noreturn]] void refuse_line(const std::string& reason);

/// Reads every line that is not empty as JSON. An Error that `read` throws makes it a bad line.
void for_each_json_line(const std::string& path, BadLines& bad,
                        const std::function<void(JsonReader& json)>& read);

/// Passes the fields of each line between commas, without the header. Quoted fields are not
/// supported. An Error that `read` throws makes it a bad line. Throws: Error{invalid_argument} if
/// the first line is not `header`.
using CsvFields = std::vector<std::string_view>;
void for_each_csv_line(const std::string& path, std::string_view header, BadLines& bad,
                       const std::function<void(const CsvFields& fields)>& read);

// Throw, by `refuse_line`, for text that is not a number or out of bounds.
std::uint64_t whole_number(std::string_view text, std::string_view what, std::uint64_t least,
                           std::uint64_t most);

}  // namespace vma
