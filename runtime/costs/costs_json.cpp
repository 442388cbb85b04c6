#include "costs/costs_json.hpp"

#include "machine/topology.hpp"
#include "placement/books/place_number.hpp"

#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

constexpr const char* move_s_per_byte = "move_s_per_byte";  // Older recordings have none.
constexpr double rate_max = 1e15, ns_max = 1e12, s_per_byte_max = 1, any_max = 9e18;

/// Calls `visit(name, most, rows, cell)` for each matrix. `most` bounds its numbers.
template <typename Costs, typename Visit>
void for_each_matrix(Costs& costs, CostsIn in, Visit&& visit) {
  const std::size_t places = costs.places();
  const std::size_t readers = in == CostsIn::recording ? costs.gpus() : places;
#define VMART_MATRIX(name, most, rows, member)                    \
  visit(name, in == CostsIn::recording ? any_max : most, rows,    \
        [&costs](PlaceId row, PlaceId column) -> decltype(auto) { \
          return costs.member(row, column);                       \
        })
  VMART_MATRIX("access_bytes_s", rate_max, readers, access_rate);
  VMART_MATRIX("access_latency_ns", ns_max, readers, access_latency);
  VMART_MATRIX("copy_bytes_s", rate_max, places, copy_rate);
  VMART_MATRIX("move_fixed_ns", ns_max, places, move_fixed);
  VMART_MATRIX(move_s_per_byte, s_per_byte_max, places, move_per_byte);
  VMART_MATRIX("stall_fixed_ns", ns_max, places, stall_fixed);
  VMART_MATRIX("stall_s_per_byte", s_per_byte_max, places, stall_per_byte);
#undef VMART_MATRIX
}

double written(double value) {
  return value;
}
std::int64_t written(Time value) {
  return value.count();
}

void assign(double& cell, double value) {
  cell = value;
}
void assign(Time& cell, double value) {
  cell = Time(static_cast<Time::rep>(value));
}

/// A row of numbers from 0 to `most`.
std::vector<double> read_row(const JsonReader& json, std::string_view name, const json::array& rows,
                             std::size_t row, std::size_t columns, double most) {
  const json::array* cells = rows[row].if_array();
  if (cells == nullptr || cells->size() != columns)
    json.refuse(name, fmt::format("row {} does not have {} cells", row, columns));
  std::vector<double> numbers;
  for (const json::value& cell : *cells) {
    const double number = cell.is_number() ? cell.to_number<double>() : -1;
    if (!(number >= 0 && number <= most)) {
      json.refuse(name,
                  fmt::format("[{}][{}] is not a number from 0 to {}", row, numbers.size(), most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

constexpr const char* kernel_key = "kernel_gap_ns";
constexpr const char* round_key = "round_gap_ns";
constexpr double gap_ns_max = 1e12;

/// The list at `key`, one number from 0 to `most` per GPU; empty if missing, as in older files.
/// Throws: Error{invalid_argument}, like the reader.
std::vector<double> read_gpu_numbers(JsonReader& json, std::string_view key, std::size_t gpus,
                                     double most) {
  std::vector<double> numbers;
  if (!json.has(key)) return numbers;
  for (const boost::json::value& cell : json.list(key)) {
    const double number = cell.is_number() ? cell.to_number<double>() : -1;
    if (!(number >= 0 && number <= most))
      json.refuse(key, fmt::format("[{}] is not a number from 0 to {}", numbers.size(), most));
    numbers.push_back(number);
  }
  if (!numbers.empty() && numbers.size() != gpus)
    json.refuse(key, "does not have a number for each GPU");
  return numbers;
}

json::array written(const std::vector<Time>& gaps) {
  json::array times;
  for (const Time gap : gaps) times.emplace_back(gap.count());
  return times;
}

std::vector<Time> read(JsonReader& json, const char* key, std::size_t gpus) {
  std::vector<Time> gaps;
  for (const double ns : read_gpu_numbers(json, key, gpus, gap_ns_max))
    gaps.emplace_back(static_cast<Time::rep>(ns));
  return gaps;
}

constexpr const char* kinds_key = "peer_links";
constexpr const char* both_ways_key = "peers_both_ways_bytes_s";
constexpr double link_rate_max = 1e15;

LinkKind read_kind(const JsonReader& json, const json::value& cell, bool itself) {
  const json::string* text = cell.if_string();
  const auto kind = text == nullptr ? std::nullopt : parse_link_kind(*text);
  if (!kind) json.refuse(kinds_key, "contains something other than same, nvlink, pcie, none");
  if ((*kind == LinkKind::same) != itself) {
    json.refuse(kinds_key, "says \"same\" of two GPUs, or not of one with itself");
  }
  return *kind;
}

std::vector<std::vector<LinkKind>> read_kinds(JsonReader& json, std::size_t gpus) {
  std::vector<std::vector<LinkKind>> kinds;
  if (!json.has(kinds_key)) return kinds;
  const json::array& rows = json.list(kinds_key);
  if (rows.empty()) return kinds;
  if (rows.size() != gpus) json.refuse(kinds_key, "does not have a row for each GPU");
  for (const json::value& row : rows) {
    const json::array* cells = row.if_array();
    if (cells == nullptr || cells->size() != gpus) {
      json.refuse(kinds_key, "has a row without a cell for each GPU");
    }
    std::vector<LinkKind>& read = kinds.emplace_back();
    for (const json::value& cell : *cells)
      read.push_back(read_kind(json, cell, read.size() + 1 == kinds.size()));
  }
  return kinds;
}

}  // namespace

void write_costs(json::object& json, const MachineCosts& costs, CostsIn in) {
  for_each_matrix(costs, in, [&](const char* name, double, std::size_t rows, auto cell) {
    json::array all;
    for (std::size_t row = 0; row < rows; ++row) {
      json::array& line = all.emplace_back(json::array()).get_array();
      for (std::size_t column = 0; column < costs.places(); ++column)
        line.emplace_back(written(cell(place_numbered(row), place_numbered(column))));
    }
    json[name] = std::move(all);
  });
}

void read_costs(JsonReader& json, MachineCosts& costs, CostsIn in) {
  for_each_matrix(costs, in, [&](std::string_view name, double most, std::size_t rows, auto cell) {
    if (in == CostsIn::recording && name == move_s_per_byte && !json.has(name)) return;
    const json::array& all = json.list(name);
    if (all.size() != rows) json.refuse(name, fmt::format("does not have {} rows", rows));
    for (std::size_t row = 0; row < rows; ++row) {
      const std::vector<double> numbers = read_row(json, name, all, row, costs.places(), most);
      for (std::size_t column = 0; column < numbers.size(); ++column)
        assign(cell(place_numbered(row), place_numbered(column)), numbers[column]);
    }
  });
  costs.rank();
}

void write_gaps(json::object& json, const LaunchGaps& gaps) {
  json[kernel_key] = written(gaps.kernel);
  json[round_key] = written(gaps.round);
}

LaunchGaps read_gaps(JsonReader& json, std::size_t gpus) {
  return {read(json, kernel_key, gpus), read(json, round_key, gpus)};
}

void write_peer_links(json::object& json, const PeerLinks& links) {
  json::array rows, rates;
  for (const std::vector<LinkKind>& row : links.kinds) {
    json::array cells;
    for (const LinkKind kind : row) cells.emplace_back(to_string(kind));
    rows.emplace_back(std::move(cells));
  }
  for (const double rate : links.both_ways) rates.emplace_back(rate);
  json[kinds_key] = std::move(rows);
  json[both_ways_key] = std::move(rates);
}

PeerLinks read_peer_links(JsonReader& json, std::size_t gpus) {
  return {read_kinds(json, gpus), read_gpu_numbers(json, both_ways_key, gpus, link_rate_max)};
}

}  // namespace vma
