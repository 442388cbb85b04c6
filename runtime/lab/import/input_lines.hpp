#pragma once

#include "lab/trace/line_reader.hpp"

#include "base/json.hpp"

#include <vma/error.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vma {

/// Throws the reason why an input line cannot be used; its reader counts it as a bad line.
[[noreturn]] void refuse_line(const std::string& reason);

/// Parses non-empty lines as JSON. An Error from `read` makes one a bad line. Ends after
/// `lines_max` good ones, unless that is 0.
void for_each_json_line(const std::string& path, BadLines& bad, std::uint64_t lines_max,
                        const std::function<void(JsonReader& json)>& read);

/// Passes the comma-separated fields of each line after the header. Quoted fields are not
/// supported. An Error from `read` makes it a bad line. Ends after `lines_max` good ones, unless
/// that is 0. Throws: Error{invalid_argument} if the first line is not `header`.
using CsvFields = std::vector<std::string_view>;
void for_each_csv_line(const std::string& path, std::string_view header, BadLines& bad,
                       std::uint64_t lines_max,
                       const std::function<void(const CsvFields& fields)>& read);

// Throws through `refuse_line` for text that is not a number or is out of bounds.
std::uint64_t whole_number(std::string_view text, std::string_view what, std::uint64_t least,
                           std::uint64_t most);

}  // namespace vma
