#include "machine/check_consistency.hpp"

#include "machine/json_text.hpp"
#include "machine/machine_schema.hpp"

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>

namespace vma {
namespace {

namespace json = boost::json;

class SenseCheck {
 public:
  explicit SenseCheck(const json::object& file) : file_(file) {}

  MachineProblems run() {
    const auto granularity = file_.at("granularity_bytes").to_number<std::uint64_t>();
    if (!std::has_single_bit(granularity)) refuse("granularity_bytes", "is not a power of two");
    nodes_ = count_of("host_nodes");
    gpus_ = count_of("gpus");
    limit("host_nodes", "nodes", nodes_, machine_host_nodes_max);
    limit("gpus", "GPUs", gpus_, machine_gpus_max);
    gpu_nodes();
    peer_link();
    reachable();
    if (const json::object* costs = file_.at("costs").if_object()) tables(*costs);
    return std::move(problems_);
  }

 private:
  void refuse(const std::string& path, std::string reason) {
    problems_.push_back({path, std::move(reason)});
  }

  static std::int64_t integer_or(const json::value& object, const char* key,
                                 std::int64_t otherwise) {
    const json::value* value = object.get_object().if_contains(key);
    return value == nullptr ? otherwise : value->to_number<std::int64_t>();
  }

  std::int64_t count_of(const char* list) const {
    std::int64_t count = 0;
    for (const json::value& entry : file_.at(list).get_array()) {
      count += integer_or(entry, "count", 1);
    }
    return count;
  }

  void limit(const char* list, const char* what, std::int64_t count, int most) {
    if (count >= 1 && count <= most) return;
    refuse(list, fmt::format("contains {} {}, not 1 to {}", count, what, most));
  }

  void gpu_nodes() {
    const json::array& entries = file_.at("gpus").get_array();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string place = JsonText::join("gpus", i);
      const auto first = entries[i].at("host_node").to_number<std::int64_t>();
      const std::int64_t gpus = integer_or(entries[i], "count", 1);
      const std::int64_t a_node = integer_or(entries[i], "gpus_per_host_node", 0);
      if (first >= nodes_) {
        refuse(JsonText::join(place, "host_node"),
               fmt::format("{} is not between 0 and {}", first, nodes_ - 1));
      } else if (a_node > 0 && first + (gpus - 1) / a_node >= nodes_) {
        refuse(JsonText::join(place, "gpus_per_host_node"), "there are fewer host nodes");
      }
    }
  }

  void peer_link() {
    const json::value* link = file_.if_contains("peer_link");
    if (link == nullptr) {
      if (gpus_ > 1) refuse("peer_link", "is missing");
      return;
    }
    const json::string& kind = link->at("kind").get_string();
    const bool has_rate = link->get_object().contains("gb_s");
    if (kind == "none") {
      if (has_rate) refuse("peer_link.gb_s", "is not allowed here: there is no link");
    } else if (kind != "nvlink" && kind != "pcie") {
      refuse("peer_link.kind",
             fmt::format("\"{}\" is not one of nvlink, pcie, none", kind.c_str()));
    } else if (!has_rate) {
      refuse("peer_link.gb_s", "is missing");
    }
    both_ways(link->get_object(), kind);
  }

  void both_ways(const json::object& link, std::string_view kind) {
    const json::value* value = link.if_contains("both_ways_gb_s");
    if (value == nullptr) return;
    const json::value* alone = link.if_contains("gb_s");
    if (kind != "nvlink") {
      refuse("peer_link.both_ways_gb_s", "is allowed only for NVLink");
    } else if (alone != nullptr && value->to_number<double>() < alone->to_number<double>()) {
      refuse("peer_link.both_ways_gb_s", "is less than gb_s, the rate of one direction");
    }
  }

  void reachable() {
    const json::value* value = file_.if_contains("reachable");
    if (value == nullptr) return;
    const json::array& rows = value->get_array();
    const auto gpus = static_cast<std::size_t>(gpus_);
    if (rows.size() != gpus) {
      return refuse("reachable", fmt::format("has {} rows for {} GPUs", rows.size(), gpus));
    }
    for (std::size_t from = 0; from < gpus; ++from) {
      const json::array& row = rows[from].get_array();
      if (row.size() != gpus) {
        refuse(JsonText::join("reachable", from), fmt::format("is not a row of {} entries", gpus));
      } else if (!row[from].get_bool()) {
        refuse(JsonText::join("reachable", from), "says that a GPU cannot reach itself");
      }
    }
  }

  void tables(const json::object& costs) {
    for (const json::key_value_pair& member : costs) {
      const json::object* table = member.value().if_object();
      if (table != nullptr) this->table(*table, JsonText::join("costs", member.key()));
    }
  }

  void table(const json::object& table, const std::string& path) {
    const json::array& sizes = table.at("sizes_mib").get_array();
    const json::array& gpus = table.at("gpus").get_array();
    const json::array& rows = table.at("us").get_array();
    const std::string us = JsonText::join(path, "us");
    if (!grows(sizes)) refuse(JsonText::join(path, "sizes_mib"), "does not grow");
    if (!grows(gpus)) refuse(JsonText::join(path, "gpus"), "does not grow");
    if (rows.size() != gpus.size()) refuse(us, "does not have a row for each of gpus");
    for (const json::value& row : rows) {
      if (row.get_array().size() == sizes.size()) continue;
      return refuse(us, "has a row whose length differs from sizes_mib");
    }
  }

  static bool grows(const json::array& numbers) {
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (!(numbers[i - 1].to_number<double>() < numbers[i].to_number<double>())) return false;
    }
    return true;
  }

  const json::object& file_;
  std::int64_t nodes_ = 0, gpus_ = 0;
  MachineProblems problems_;
};

}  // namespace

MachineProblems check_consistency(const json::object& file) {
  return SenseCheck(file).run();
}

}  // namespace vma
