#include "tools/vmart/control_commands.hpp"

#include "control/selector.hpp"
#include "tools/vmart/control_text.hpp"

#include <vma/error.hpp>

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

std::string shares(const json::object& allocation) {
  const json::object& bytes_at = object_of(allocation, "bytes_at");
  std::string text;
  for (const auto& [at, bytes] : bytes_at) {
    text += fmt::format("  {} {}", with_place_names(printable(at)),
                        bytes_text(number_of(bytes_at, at)));
  }
  return text;
}

void print_allocation(const json::object& allocation) {
  const double dropped_bytes = number_of(allocation, "dropped_bytes");
  fmt::print("{:<18} {:>12}{} \"{}\"{}{}{}\n", text_of(allocation, "address"),
             bytes_text(number_of(allocation, "bytes")), shares(allocation),
             text_of(allocation, "tag"), flag_of(allocation, "movable") ? "" : " not movable",
             flag_of(allocation, "parked") ? " parked" : "",
             dropped_bytes > 0 ? " dropped " + bytes_text(dropped_bytes) : "");
}

/// One frame a line, the innermost first.
void print_site(const json::object& allocation) {
  constexpr std::string_view between = " < ";
  const std::string site = text_of(allocation, "site");
  if (site.empty()) fmt::print("    unknown\n");
  for (std::size_t begin = 0; begin < site.size();) {
    const std::size_t end = std::min(site.find(between, begin), site.size());
    fmt::print("    {}\n", site.substr(begin, end - begin));
    begin = end + between.size();
  }
}

/// The allocation around `address`, with all of its extents.
json::object with_extents(ControlClient& client, const std::string& address) {
  json::object request{{"command", "where"}, {"address", address}};
  json::object whole = client.ask(request);
  json::array extents = list_of(whole, "extents");
  for (json::object page = whole; page.contains("more_from");) {
    request["from"] = count_of(page, "more_from");
    page = client.ask(request);
    for (const json::value& extent : list_of(page, "extents")) extents.push_back(extent);
  }
  whole.erase("more_from");
  whole["extents"] = std::move(extents);
  return whole;
}

/// The same for each. One that the program has freed meanwhile is left out.
json::array all_with_extents(ControlClient& client, const json::array& found) {
  json::array whole;
  for (const json::value& value : found) {
    try {
      whole.push_back(with_extents(client, text_of(object_of(value), "address")));
    } catch (const ControlRefusal& refusal) {
      if (refusal.kind() != to_string(ErrorKind::unknown_pointer)) throw;
    }
  }
  return whole;
}

void print_extents(const json::object& allocation) {
  const auto begin = std::strtoull(text_of(allocation, "address").c_str(), nullptr, 16);
  fmt::print("  {:<18} {:>12}  {:<10} {:>5}\n", "address", "bytes", "lies at", "moves");
  for (const json::value& value : list_of(allocation, "extents")) {
    const json::object* const extent = value.if_object();
    if (extent == nullptr) continue;
    fmt::print("  {:<#18x} {:>12}  {:<10} {:>5}\n", begin + count_of(*extent, "offset"),
               bytes_text(number_of(*extent, "bytes")),
               flag_of(*extent, "dropped") ? "dropped" : text_of(*extent, "at"),
               count_of(*extent, "generation"));
  }
}

}  // namespace

json::array list_allocations(ControlClient& client, const std::string& what) {
  json::array found;
  json::object request{{"command", "where"}};
  if (!what.empty()) request["what"] = what;
  for (;;) {
    const json::object page = client.ask(request);
    for (const json::value& value : list_of(page, "allocations")) found.push_back(value);
    if (!page.contains("more_from")) return found;
    request["from"] = page.at("more_from");
  }
}

int run_where(const ControlChoice& choice, const WhereCommand& command) {
  const std::string& what = command.what;
  // Each takes one request, and a runtime limits their rate.
  constexpr std::size_t detailed_max = 100;
  ControlClient client(choice);
  json::array found;
  if (parse_address(what)) {
    found.push_back(with_extents(client, what));
  } else {
    found = list_allocations(client, what);
    if (!what.empty() && found.size() <= detailed_max) found = all_with_extents(client, found);
  }
  if (command.json) {
    print_json(json::object{{"allocations", std::move(found)}});
    return 0;
  }
  for (const json::value& value : found) {
    print_allocation(object_of(value));
    if (command.sites) {
      print_site(object_of(value));
    } else if (object_of(value).contains("extents"))
      print_extents(object_of(value));
  }
  return 0;
}

}  // namespace vma
