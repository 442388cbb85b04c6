#include "machine/machine_schema.hpp"

#include "base/check.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace vma {
namespace {

namespace json = boost::json;
using enum MachineKey::Form;
using Form = MachineKey::Form;
using Bounds = MachineKey::Bounds;
using Machine = MachineDescription;
using Gpu = GpuDescription;
using Costs = CostParameters;

constexpr bool required = true, optional = false;
constexpr double mib_max = 64.0 * 1024 * 1024;  // 64 TiB.
constexpr double gb_s_max = 1e6, us_max = 1e9;
constexpr Bounds no_bounds;
constexpr Bounds memory{1, mib_max, "MiB"}, any_memory{0, mib_max, "MiB"};
constexpr Bounds rate{0.001, gb_s_max, "GB/s"}, any_rate{0, gb_s_max, "GB/s"};
constexpr Bounds duration{0, us_max, "us"}, duration_a_mib{0, us_max, "us/MiB"};

constexpr auto machine = std::to_array<MachineKey>({
    {"name", text, required, no_bounds, &Machine::name},
    {"source", text, required, no_bounds, &Machine::source},
    {"sources", sources, required, no_bounds, {}},
    {"granularity_bytes", integer, required, {4096, 1 << 30, "bytes"}, &Machine::granularity_bytes},
    {"junk_fill", flag, optional, no_bounds, &Machine::junk_fill},
    {"host_nodes", objects, required, no_bounds, {}},
    {"host_nodes[].count", integer, optional, {1, machine_host_nodes_max, "nodes"}, {}},
    {"host_nodes[].memory_mib", integer, required, memory, &HostNodeDescription::memory_bytes},
    {"gpus", objects, required, no_bounds, {}},
    {"gpus[].count", integer, optional, {1, machine_gpus_max, "GPUs"}, {}},
    {"gpus[].name", text, required, no_bounds, &Gpu::name},
    {"gpus[].memory_mib", integer, required, memory, &Gpu::memory_bytes},
    {"gpus[].multiprocessors", integer, required, {1, 10'000, ""}, &Gpu::multiprocessors},
    {"gpus[].compute_capability", integer, required, {10, 999, "tenths"}, &Gpu::compute_capability},
    {"gpus[].copy_engines", integer, required, {1, 64, ""}, &Gpu::copy_engines},
    {"gpus[].hardware_queues", integer, required, {1, 128, ""}, &Gpu::hardware_queues},
    {"gpus[].host_node", integer, required, {0, machine_host_nodes_max - 1, ""}, &Gpu::host_node},
    {"gpus[].gpus_per_host_node", integer, optional, {0, machine_gpus_max, "GPUs"}, {}},
    {"gpus[].local_gb_s", number, required, rate, &Gpu::local_gb_s},
    {"peer_link", object, optional, no_bounds, {}},
    {"peer_link.kind", text, required, no_bounds, {}},
    {"peer_link.gb_s", number, optional, rate, &PeerLink::gb_s},
    {"peer_link.both_ways_gb_s", number, optional, rate, &PeerLink::both_ways_gb_s},
    {"peer_link.native_atomics", flag, optional, no_bounds, &PeerLink::native_atomics},
    {"reachable", flags, optional, no_bounds, {}},
    {"host_link", object, required, no_bounds, {}},
    {"host_link.to_gpu_gb_s", number, required, rate, &HostLink::to_gpu_gb_s},
    {"host_link.from_gpu_gb_s", number, required, rate, &HostLink::from_gpu_gb_s},
    {"host_link.native_atomics", flag, optional, no_bounds, &HostLink::native_atomics},
    {"far_host_link", object, optional, no_bounds, {}},
    {"far_host_link.to_gpu_gb_s", number, required, rate, &HostLink::to_gpu_gb_s},
    {"far_host_link.from_gpu_gb_s", number, required, rate, &HostLink::from_gpu_gb_s},
    {"far_host_link.native_atomics", flag, optional, no_bounds, &HostLink::native_atomics},
    {"costs", costs, required, no_bounds, {}},
    {"costs.*.sizes_mib", numbers, required, {0, us_max, "MiB"}, &CostTable::sizes_mib},
    {"costs.*.gpus", integers, required, {1, machine_gpus_max, "GPUs"}, &CostTable::gpus},
    {"costs.*.us", rows, required, duration, &CostTable::us},
    {"costs.*.floor_us", number, optional, duration, &CostTable::floor_us},
});

constexpr auto calls = std::to_array<MachineKey>({
    {"costs.create", table, optional, no_bounds, &Costs::create},
    {"costs.release", table, optional, no_bounds, &Costs::release},
    {"costs.unmap", table, optional, no_bounds, &Costs::unmap},
    {"costs.grant_cold", table, optional, no_bounds, &Costs::grant_cold},
    {"costs.grant_first", table, optional, no_bounds, &Costs::grant_first},
    {"costs.grant_later", table, optional, no_bounds, &Costs::grant_later},
    {"costs.grant_shadow", table, optional, no_bounds, &Costs::grant_shadow},
    {"costs.grant_first_own_class", table, optional, no_bounds, &Costs::grant_first_own_class},
    {"costs.grant_later_own_class", table, optional, no_bounds, &Costs::grant_later_own_class},
    {"costs.host_grant_us_per_mib", number, optional, duration_a_mib,
     &Costs::host_grant_us_per_mib},
    {"costs.host_unmap_us_per_mib", number, optional, duration_a_mib,
     &Costs::host_unmap_us_per_mib},
    {"costs.host_create_gb_s", number, optional, any_rate, &Costs::host_create_gb_s},
    {"costs.plain_allocate_us", number, optional, duration, &Costs::plain_allocate_us},
    {"costs.plain_free_us", number, optional, duration, &Costs::plain_free_us},
    {"costs.reserve_us", number, optional, duration, &Costs::reserve_us},
    {"costs.unreserve_us", number, optional, duration, &Costs::unreserve_us},
    {"costs.map_us", number, optional, duration, &Costs::map_us},
    {"costs.launch_us", number, optional, duration, &Costs::launch_us},
    {"costs.record_us", number, optional, duration, &Costs::record_us},
    {"costs.batch_us", number, optional, duration, &Costs::batch_us},
    {"costs.wait_us", number, optional, duration, &Costs::wait_us},
    {"costs.query_us", number, optional, duration, &Costs::query_us},
    {"costs.enqueue_us", number, optional, duration, &Costs::enqueue_us},
    {"costs.hold_us", number, optional, duration, &Costs::hold_us},
    {"costs.create_event_us", number, optional, duration, &Costs::create_event_us},
    {"costs.create_stream_us", number, optional, duration, &Costs::create_stream_us},
    {"costs.open_context_us", number, optional, duration, &Costs::open_context_us},
    {"costs.green_context_us", number, optional, duration, &Costs::green_context_us},
    {"costs.suspend_us", number, optional, duration, &Costs::suspend_us},
    {"costs.suspend_channel_us", number, optional, duration, &Costs::suspend_channel_us},
    {"costs.resume_us", number, optional, duration, &Costs::resume_us},
    {"costs.resume_channel_us", number, optional, duration, &Costs::resume_channel_us},
    {"costs.load_kernel_us", number, optional, duration, &Costs::load_kernel_us},
    {"costs.kernel_us", number, optional, duration, &Costs::kernel_us},
    {"costs.copy_latency_us", number, optional, duration, &Costs::copy_latency_us},
    {"costs.host_copy_gb_s", number, optional, any_rate, &Costs::host_copy_gb_s},
    {"costs.size_class_mib", integer, optional, any_memory, &Costs::size_class_bytes},
    {"costs.context_mib", integer, optional, any_memory, &Costs::context_bytes},
    {"costs.green_context_mib", integer, optional, any_memory, &Costs::green_context_bytes},
    {"costs.own_context_mib", integer, optional, any_memory, &Costs::own_context_bytes},
});

/// Visits the keys of a file and compares them with those that are allowed.
class FormCheck {
 public:
  SchemaCheck run(const json::value& json) {
    if (const json::object* file = json.if_object()) {
      members(*file, "", "");
    } else {
      form_.problems.emplace_back("is not an object");
    }
    return std::move(form_);
  }

 private:
  void refuse(const std::string& path, std::string_view reason) {
    form_.problems.push_back(fmt::format("{}: {}", path, reason));
  }

  /// `pattern` is the path of the object in `machine_keys`.
  void members(const json::object& object, const std::string& path, const std::string& pattern) {
    for (const json::key_value_pair& member : object) {
      const std::string place = join_path(path, member.key());
      const std::string wanted = join_path(pattern, member.key());
      const auto key = std::ranges::find(machine_keys(), wanted, &MachineKey::path);
      // A key with a dot in its name is none of an object below.
      if (key == machine_keys().end() || key->object() != pattern) {
        refuse(place, "is not a known key of this object");
        continue;
      }
      form_.paths.insert(place);
      if (key->bounds.most > 0) form_.numbers.push_back(place);
      check(member.value(), place, *key, key->form);
    }
    for (const MachineKey& key : machine_keys()) {
      if (key.required && key.object() == pattern && !object.contains(key.name())) {
        refuse(join_path(path, key.name()), "is missing");
      }
    }
  }

  void check(const json::value& value, const std::string& path, const MachineKey& key, Form form) {
    const std::string inside(key.path);
    const auto each = [&](Form elements) {
      return list(value, path, [&](const json::value& element, const std::string& place) {
        check(element, place, key, elements);
      });
    };
    switch (form) {
      case costs:
        if (!value.is_string()) return members_of(value, path, inside);
        [[fallthrough]];
      case text:
        if (!value.is_string()) return refuse(path, "must be a string");
        if (value.get_string().empty()) refuse(path, "is empty");
        return;
      case flag:
        if (!value.is_bool()) refuse(path, "must be true or false");
        return;
      case integer:
      case number: return within(value, path, key.bounds, form == integer);
      case integers: return each(integer);
      case numbers: return each(number);
      case rows: return each(numbers);
      case flags:
        return list(value, path, [&](const json::value& row, const std::string& place) {
          list(row, place,
               [&](const json::value& one, const std::string& at) { check(one, at, key, flag); });
        });
      case object: return members_of(value, path, inside);
      case table: return members_of(value, path, "costs.*");
      case objects:
        return list(value, path, [&](const json::value& element, const std::string& place) {
          form_.paths.insert(place);
          members_of(element, place, inside + "[]");
        });
      case sources: return;
    }
  }

  void within(const json::value& value, const std::string& path, const Bounds& bounds, bool whole) {
    const double number = value.is_number() ? value.to_number<double>() : NAN;
    if (whole && (number != std::floor(number) || !(std::abs(number) <= 1e15)))
      return refuse(path, "is not a whole number");
    if (std::isnan(number)) return refuse(path, "is not a number");
    if (number >= bounds.least && number <= bounds.most) return;
    refuse(path, fmt::format("{} is not between {} and {}", number, bounds.least, bounds.most));
  }

  template <typename Body>
  void list(const json::value& value, const std::string& path, Body&& body) {
    const json::array* list = value.if_array();
    if (list == nullptr) return refuse(path, "is not a list");
    for (std::size_t i = 0; i < list->size(); ++i) body((*list)[i], join_path(path, i));
  }

  void members_of(const json::value& value, const std::string& path, const std::string& pattern) {
    const json::object* object = value.if_object();
    if (object == nullptr) return refuse(path, "is not an object");
    members(*object, path, pattern);
  }

  SchemaCheck form_;
};

}  // namespace

std::span<const MachineKey> machine_keys() {
  static const std::vector<MachineKey> keys = [] {
    std::vector<MachineKey> all(machine.begin(), machine.end());
    all.insert(all.end(), calls.begin(), calls.end());
    return all;
  }();
  return keys;
}

void copy_cost(std::string_view name, const CostParameters& from, CostParameters& to) {
  const auto key = std::ranges::find(calls, join_path("costs", name), &MachineKey::path);
  VMART_CHECK(key != calls.end(), "it is the name of a cost");
  const auto copy = [&](auto member) {
    if constexpr (requires { to.*member; }) to.*member = from.*member;
  };
  std::visit(copy, key->member);
}

SchemaCheck check_schema(const json::value& json) {
  return FormCheck().run(json);
}

}  // namespace vma
