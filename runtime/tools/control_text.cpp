#include "tools/control_text.hpp"

#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace vma {

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return {};
  // Prometheus's text is of lines; everything else is shown within one.
  return name == "prometheus" ? std::string(value->get_string()) : printable(value->get_string());
}

double number_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

std::uint64_t count_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code not_exact;
  const auto count = value->to_number<std::uint64_t>(not_exact);
  return not_exact ? 0 : count;
}

bool flag_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

const json::array& list_of(const json::object& object, std::string_view name) {
  static const json::array empty;
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_array() ? value->get_array() : empty;
}

const json::object& object_of(const json::object& object, std::string_view name) {
  static const json::object empty;
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->get_object() : empty;
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (size < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string printable(std::string_view text) {
  std::string shown(text);
  for (char& character : shown) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7F) character = '?';
  }
  return shown;
}

std::string event_line(const json::object& event) {
  std::string line = fmt::format("{:>6} {:>12}  {:<16}", count_of(event, "sequence"),
                                 seconds_text(number_of(event, "at_s")), text_of(event, "kind"));
  if (event.contains("operation")) line += fmt::format(" #{}", count_of(event, "operation"));
  if (event.contains("address")) line += " " + text_of(event, "address");
  if (event.contains("bytes")) line += " " + bytes_text(number_of(event, "bytes"));
  if (event.contains("from")) line += " " + text_of(event, "from");
  if (event.contains("to")) line += " -> " + text_of(event, "to");
  if (event.contains("took_s")) line += " took " + seconds_text(number_of(event, "took_s"));
  if (event.contains("stall_s")) line += " stall " + seconds_text(number_of(event, "stall_s"));
  if (event.contains("text")) line += ": " + text_of(event, "text");
  return line;
}

std::string places_table(const json::array& places) {
  std::string table = fmt::format("{:<10} {:>12} {:>12} {:>6} {:>12}  \n", "location", "used",
                                  "capacity", "%", "demand/s");
  for (const json::value& value : places) {
    const json::object* place = value.if_object();
    if (place == nullptr) continue;
    const double used = number_of(*place, "used_bytes");
    const double capacity = number_of(*place, "capacity_bytes");
    table += fmt::format("{:<10} {:>12} {:>12} {:>6.1f} {:>12}\n", text_of(*place, "at"),
                         bytes_text(used), bytes_text(capacity),
                         capacity > 0 ? 100 * used / capacity : 0,
                         bytes_text(number_of(*place, "demand_bytes_s")));
  }
  return table;
}

std::string loads_table(const json::object& loads) {
  const json::array& gpus = list_of(loads, "gpus");
  if (gpus.empty()) return {};
  const auto row = [](const auto&... cells) {
    return fmt::format("{:<10} {:>8} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}\n", cells...);
  };
  std::string table = row("gpu", "kernels", "memory", "in use", "nvlink out/s", "nvlink in/s",
                          "pcie out/s", "pcie in/s");
  for (const json::value& value : gpus) {
    const json::object* gpu = value.if_object();
    if (gpu == nullptr) continue;
    const auto cell = [&](std::string_view name, auto text) {
      return gpu->contains(name) ? text(number_of(*gpu, name)) : std::string("-");
    };
    const auto share = [](double part) { return fmt::format("{:.0f} %", 100 * part); };
    table += row(text_of(*gpu, "at"), cell("kernels", share), cell("memory", share),
                 cell("memory_used_bytes", bytes_text), cell("nvlink_sent_bytes_s", bytes_text),
                 cell("nvlink_received_bytes_s", bytes_text), cell("pcie_sent_bytes_s", bytes_text),
                 cell("pcie_received_bytes_s", bytes_text));
  }
  return table;
}

}  // namespace vma
