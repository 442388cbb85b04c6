#include "lab/import/input_lines.hpp"

#include <boost/json/parse.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace vma {
namespace {

constexpr std::string_view refusing_call = "read_line";

/// The error text without the prefix that `Error` adds.
std::string reason_of(const Error& error) {
  const std::string prefix =
      fmt::format("{}: {}: ", error.call(), to_string(ErrorKind::invalid_argument));
  const std::string_view text = error.what();
  return std::string(text.starts_with(prefix) ? text.substr(prefix.size()) : text);
}

/// Calls `read` for non-empty lines until it has accepted `lines_max` (0: all); an invalid_argument
/// that it throws makes a bad line.
template <typename Read>
void read_lines(LineReader& lines, BadLines& bad, std::uint64_t lines_max, Read&& read) {
  std::uint64_t good = 0;
  while (const auto line = lines.next()) {
    if (line->find_first_not_of(" \t") == std::string_view::npos) continue;
    std::string reason;
    try {
      if (lines.cut()) refuse_line("is too long");
      read(*line);
      if (++good == lines_max) return;
      continue;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
      reason = reason_of(error);
    }
    bad.add(lines.line(), std::move(reason));
  }
}

}  // namespace

void refuse_line(const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, std::string(refusing_call), reason);
}

void for_each_json_line(const std::string& path, BadLines& bad, std::uint64_t lines_max,
                        const std::function<void(JsonReader& json)>& read) {
  LineReader lines(path);
  read_lines(lines, bad, lines_max, [&](std::string_view line) {
    boost::system::error_code failed;
    const boost::json::value value =
        boost::json::parse(boost::json::string_view(line.data(), line.size()), failed);
    if (failed) refuse_line(failed.message());
    JsonReader json(value, "the line", "", std::string(refusing_call));
    read(json);
  });
}

void for_each_csv_line(const std::string& path, std::string_view header, BadLines& bad,
                       std::uint64_t lines_max,
                       const std::function<void(const CsvFields& fields)>& read) {
  LineReader lines(path);
  const auto first = lines.next();
  if (!first || *first != header) {
    throw Error(ErrorKind::invalid_argument, std::string(refusing_call),
                fmt::format("{}: line 1: is not \"{}\"", path, header));
  }
  const auto columns = static_cast<std::size_t>(std::count(header.begin(), header.end(), ',')) + 1;
  CsvFields fields;
  read_lines(lines, bad, lines_max, [&](std::string_view line) {
    fields.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      fields.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    if (fields.size() != columns) {
      refuse_line(fmt::format("has {} fields, not {}", fields.size(), columns));
    }
    read(fields);
  });
}

std::uint64_t whole_number(std::string_view text, std::string_view what, std::uint64_t least,
                           std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    refuse_line(
        fmt::format("{}: \"{}\" is not a whole number from {} to {}", what, text, least, most));
  }
  return value;
}

}  // namespace vma
