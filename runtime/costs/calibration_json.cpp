#include "costs/calibration_json.hpp"

#include "machine/topology.hpp"

#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace vma {
namespace {

namespace json = boost::json;

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
