#include "costs/peer_links_json.hpp"

#include "costs/gpu_numbers_json.hpp"
#include "machine/link_kind.hpp"

#include <boost/json/array.hpp>
#include <boost/json/string.hpp>

namespace vma {
namespace {

namespace json = boost::json;

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
