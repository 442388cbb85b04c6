#include "tools/vmart/control_text.hpp"

#include "base/json.hpp"

#include <boost/json/value.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma {

std::vector<std::string> TextTable::lines(std::size_t width) const {
  std::vector<std::size_t> widths;
  std::size_t shown = 0, used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t wide = std::max(columns_[i].width, columns_[i].title.size());
    for (const auto& row : rows_) wide = std::max(wide, row[i].size());
    const std::size_t taken = wide + (i > 0 ? 1 : 0);
    if (i > 0 && used + taken > width) break;
    widths.push_back(wide);
    used += taken;
    ++shown;
  }
  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      text += i == 0 ? fmt::format("{:<{}}", cell(i), widths[i])
                     : fmt::format(" {:>{}}", cell(i), widths[i]);
    }
    return std::string(first_letters(text, width));
  };
  std::vector<std::string> lines{line([&](std::size_t i) { return columns_[i].title; })};
  for (const auto& row : rows_) lines.push_back(line([&](std::size_t i) { return row[i]; }));
  return lines;
}

std::string TextTable::text() const {
  std::string text;
  for (const std::string& line : lines(std::numeric_limits<std::size_t>::max()))
    text += line + "\n";
  return text;
}

std::string_view first_letters(std::string_view text, std::size_t width) {
  std::size_t letters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && letters++ == width) return text.substr(0, i);
  }
  return text;
}

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return {};
  // Prometheus's text has several lines; every other string is shown within a line.
  if (name == "prometheus") return std::string(value->get_string());
  std::string text = printable(value->get_string());
  // The program's own words stay as they are.
  return name == "tag" || name == "site" ? text : with_place_names(text);
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
  static const json::value none;
  const json::value* value = object.if_contains(name);
  return object_of(value != nullptr ? *value : none);
}

const json::object& object_of(const json::value& element) {
  static const json::object empty;
  const json::object* const object = element.if_object();
  return object != nullptr ? *object : empty;
}

void print_json(const json::value& value) {
  fmt::print("{}\n", readable_json(value));
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (size < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string event_line(const json::object& event) {
  std::string line = fmt::format("{:>6} {:>12}  {:<16}", count_of(event, "sequence"),
                                 seconds_text(number_of(event, "at_s")), text_of(event, "kind"));
  if (event.contains("operation")) line += fmt::format(" #{}", count_of(event, "operation"));
  if (event.contains("address")) line += " " + text_of(event, "address");
  if (event.contains("bytes")) line += " " + bytes_text(number_of(event, "bytes"));
  if (const std::string tag = text_of(event, "tag"); !tag.empty()) line += " \"" + tag + "\"";
  if (event.contains("from")) line += " " + text_of(event, "from");
  if (event.contains("to")) line += " -> " + text_of(event, "to");
  if (event.contains("took_s")) line += " took " + seconds_text(number_of(event, "took_s"));
  if (event.contains("stall_s")) line += " stall " + seconds_text(number_of(event, "stall_s"));
  if (event.contains("stop")) line += " by " + text_of(event, "stop");
  if (event.contains("text")) line += ": " + text_of(event, "text");
  if (count_of(event, "times") > 1) line += fmt::format(" ({} times)", count_of(event, "times"));
  return line;
}

std::string value_text(std::string_view name, const json::value& value) {
  if (const json::object* const object = value.if_object()) {
    std::string text;
    for (const auto& [key, member] : *object) {
      std::string_view title = key;
      if (title.ends_with("_s")) title.remove_suffix(2);
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(title),
                          value_text(key, member));
    }
    return text.empty() ? "none" : text;
  }
  if (value.is_string()) return printable(value.get_string());
  if (!value.is_number()) return readable_json(value);
  const auto number = value.to_number<double>();
  if (name.ends_with("bytes_s")) return bytes_text(number) + "/s";
  if (name.ends_with("_s")) return seconds_text(number);
  if (name.find("bytes") != std::string_view::npos) return bytes_text(number);
  return value.is_double() ? fmt::format("{:.3f}", number) : readable_json(value);
}

TextTable places_table(const json::array& places) {
  TextTable table({{"place", 10}, {"used", 12}, {"%", 6}, {"capacity", 12}, {"demand/s", 12}});
  for (const json::value& value : places) {
    const json::object& place = object_of(value);
    const bool known = place.contains("capacity_bytes");
    const std::string capacity = known ? bytes_text(number_of(place, "capacity_bytes")) : "-";
    table.add({text_of(place, "at") + (flag_of(place, "closed") ? " (closed)" : ""),
               bytes_text(number_of(place, "used_bytes")),
               fmt::format("{:.1f}", 100 * used_share(place)), capacity,
               bytes_text(number_of(place, "demand_bytes_s"))});
  }
  return table;
}

double used_share(const json::object& place) {
  const double capacity = number_of(place, "capacity_bytes");
  return capacity > 0 ? number_of(place, "used_bytes") / capacity : 0;
}

TextTable loads_table(const json::object& loads) {
  TextTable table({{"gpu", 10},
                   {"kernels", 8},
                   {"memory", 8},
                   {"in use", 12},
                   {"nvlink out/s", 12},
                   {"nvlink in/s", 12},
                   {"pcie out/s", 12},
                   {"pcie in/s", 12}});
  for (const json::value& value : list_of(loads, "gpus")) {
    const json::object* gpu = value.if_object();
    if (gpu == nullptr) continue;
    const auto cell = [&](std::string_view name, auto text) {
      return gpu->contains(name) ? text(number_of(*gpu, name)) : std::string("-");
    };
    const auto share = [](double part) { return fmt::format("{:.0f} %", 100 * part); };
    table.add({text_of(*gpu, "at"), cell("kernels", share), cell("memory", share),
               cell("memory_used_bytes", bytes_text), cell("nvlink_sent_bytes_s", bytes_text),
               cell("nvlink_received_bytes_s", bytes_text), cell("pcie_sent_bytes_s", bytes_text),
               cell("pcie_received_bytes_s", bytes_text)});
  }
  return table;
}

}  // namespace vma
