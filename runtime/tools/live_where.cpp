#include "tools/live_where.hpp"

#include "tools/control_text.hpp"

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <cstdlib>

namespace vma {
namespace {

namespace json = boost::json;

std::string shares(const json::object& allocation) {
  const json::value* bytes_at = allocation.if_contains("bytes_at");
  std::string text;
  if (bytes_at == nullptr || !bytes_at->is_object()) return text;
  for (const auto& [at, bytes] : bytes_at->get_object()) {
    text += fmt::format("  {} {}", printable(at), bytes_text(bytes.to_number<double>()));
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

void list_all(ControlClient& client) {
  json::object request{{"command", "where"}};
  for (;;) {
    const json::object page = client.ask(request);
    for (const json::value& value : list_of(page, "allocations")) {
      print_allocation(value.as_object());
    }
    const std::string more = text_of(page, "more_from");
    if (more.empty()) return;
    request["from"] = more;
  }
}

void print_one(ControlClient& client, const std::string& address) {
  json::object request{{"command", "where"}, {"address", address}};
  for (bool first = true;; first = false) {
    const json::object page = client.ask(request);
    const auto begin = std::strtoull(text_of(page, "address").c_str(), nullptr, 16);
    if (first) {
      print_allocation(page);
      fmt::print("  {:<18} {:>12}  {:<10} {:>5}\n", "address", "bytes", "lies at", "moves");
    }
    for (const json::value& value : list_of(page, "extents")) {
      const json::object& extent = value.as_object();
      fmt::print("  {:<#18x} {:>12}  {:<10} {:>5}\n", begin + count_of(extent, "offset"),
                 bytes_text(number_of(extent, "bytes")),
                 flag_of(extent, "dropped") ? "dropped" : text_of(extent, "at"),
                 count_of(extent, "generation"));
    }
    if (!page.contains("more_from")) return;
    request["from"] = count_of(page, "more_from");
  }
}

}  // namespace

int run_live_where(const ControlChoice& choice, const std::string& address) {
  ControlClient client(choice);
  if (address.empty()) {
    list_all(client);
  } else {
    print_one(client, address);
  }
  return 0;
}

}  // namespace vma
