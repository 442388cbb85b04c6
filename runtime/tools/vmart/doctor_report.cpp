#include "tools/vmart/doctor_report.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "machine/topology.hpp"
#include "tools/vmart/control_text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <fmt/format.h>

namespace vma {
namespace {

namespace json = boost::json;

template <typename Cell>
void print_matrix(const char* title, const std::vector<Place>& places, Cell&& cell) {
  fmt::print("\n{:<14}", title);
  for (const Place to : places) fmt::print(" {:>8}", place_name(to));
  fmt::print("\n");
  for (const Place from : places) {
    fmt::print("{:<14}", place_name(from));
    for (const Place to : places) fmt::print(" {:>8}", cell(from, to));
    fmt::print("\n");
  }
}

std::string name_of(DeviceId device) {
  return to_string(gpu(index(device)));
}

json::object device_json(DeviceId device, const DeviceInfo& info) {
  return {{"at", name_of(device)},
          {"name", info.name},
          {"uuid", info.uuid},
          {"memory_bytes", info.memory_bytes},
          {"multiprocessors", info.multiprocessors},
          {"compute_capability", info.compute_capability},
          {"copy_engines", info.copy_engines},
          {"hardware_queues", info.max_queues},
          {"host_node", info.host_node},
          {"mig", info.mig}};
}

double microseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

json::object suspension_json(DeviceId device, const SuspensionFinding& found) {
  using State = SuspensionFinding::State;
  json::object entry{{"at", name_of(device)}};
  if (found.state == State::usable) {
    entry["state"] = "usable";
    entry["suspend_us"] = microseconds(found.suspend);
    entry["resume_us"] = microseconds(found.resume);
  } else {
    entry["state"] = found.state == State::off ? "off" : "unknown";
    entry["why"] = found.why;
  }
  return entry;
}

json::object support_json(const std::optional<Support>& support) {
  if (!support) return {{"class", "simulated"}};
  return {{"class", support->name}, {"why", support->why}, {"frameworks", support->frameworks}};
}

json::array texts(const std::vector<std::string>& lines) {
  json::array array;
  for (const std::string& line : lines) array.emplace_back(line);
  return array;
}

void print_lines(const char* title, const std::vector<std::string>& lines) {
  fmt::print("\n{:<15} {}\n", title, lines.empty() ? "nothing" : "");
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

}  // namespace

void print_driver(Driver& driver) {
  fmt::print("driver          {}\n", driver.description());
  fmt::print("floor           driver 550 (CUDA 12.4): {}\n",
             driver.simulated() ? "does not apply: this machine is simulated" : "met");
  fmt::print("context hold    {}\n", driver.has_context_hold() ? "available" : "not available");
}

void print_support(const std::optional<Support>& support) {
  if (!support) {
    fmt::print("support         does not apply: this machine is simulated\n");
    return;
  }
  fmt::print("support         {}: {} (docs/reference/support.md)\n", support->name, support->why);
  if (!support->frameworks.empty()) fmt::print("                with {}\n", support->frameworks);
}

void print_devices(const Topology& topology) {
  fmt::print("\n{:<8} {:<20} {:>9} {:>4} {:>4} {:>7} {:>7} {:>6}  {}\n", "GPU", "name", "MiB",
             "SMs", "cc", "engines", "queues", "node", "UUID");
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    fmt::print("{:<8} {:<20} {:>9} {:>4} {:>4} {:>7} {:>7} {:>6}  {}\n",
               place_name(gpu(index(device))), info.name, info.memory_bytes / MiB,
               info.multiprocessors, info.compute_capability, info.copy_engines, info.max_queues,
               info.host_node, info.uuid);
  }
  std::string nodes;
  for (const Place at : topology.places()) {
    if (at.kind == Place::Kind::host) nodes += " " + place_name(at);
  }
  fmt::print("host nodes     {}\n", nodes.empty() ? " none" : nodes);
}

void print_peers(const Topology& topology) {
  std::vector<Place> gpus;
  for (const DeviceId device : topology.devices()) gpus.push_back(gpu(index(device)));
  print_matrix("reaches", gpus, [&](Place from, Place to) {
    const LinkKind kind = topology.link(DeviceId{from.ordinal}, DeviceId{to.ordinal}).kind;
    return kind == LinkKind::same ? "-" : to_string(kind);
  });
}

void print_speeds(const DoctorFindings& findings, const Topology& topology, bool simulated) {
  print_matrix("GB/s from, to", topology.places(), [&](Place from, Place to) {
    const auto speed = findings.gb_s.find({from, to});
    return speed == findings.gb_s.end() ? std::string("-") : fmt::format("{:.1f}", speed->second);
  });
  fmt::print("(one copy of {} MiB, best of several{})\n", findings.copy_bytes / MiB,
             simulated ? ", in simulated time" : "");
}

void print_hbm(const DoctorFindings& findings) {
  const bool copied = findings.copy_bytes > 0;
  constexpr double mib = static_cast<double>(MiB);
  const auto cell = [&](double bytes) {
    return copied ? fmt::format("{:.0f}", bytes / mib) : std::string();
  };
  fmt::print("\n{:<14} {:>14} {:>14} {:>20}\n", "MiB of HBM", "idle runtime",
             copied ? "after copies" : "", copied ? "with a context" : "");
  for (const DoctorFindings::Hbm& hbm : findings.hbm) {
    fmt::print("{:<14} {:>14.0f} {:>14} {:>20}\n", place_name(gpu(index(hbm.device))),
               hbm.idle_bytes / mib, cell(hbm.copies_bytes), cell(hbm.own_context_bytes));
  }
  fmt::print("(not counting the primary context, which the program's own use of CUDA creates)\n");
}

void print_copy_contexts(const DoctorFindings& findings, bool own_contexts) {
  if (own_contexts) {
    fmt::print("copies run in contexts of the runtime's own (VMART_OWN_CONTEXTS)\n");
  } else {
    fmt::print(
        "copies run in contexts of the program, except under a gate and in synchronous moves "
        "of many chunks\n");
  }
  if (!findings.own_context_time) return;
  fmt::print("these need a context of the runtime's own, which takes {:.0f} ms to create\n",
             static_cast<double>(findings.own_context_time->count()) / 1e6);
}

void print_suspensions(const DoctorFindings& findings) {
  fmt::print("\nstop by suspension (unless VMART_STOP=gate)\n");
  for (const auto& [device, found] : findings.suspensions) {
    const std::string at = place_name(gpu(index(device)));
    switch (found.state) {
      case SuspensionFinding::State::usable:
        fmt::print("{:<14} usable: {:.0f} us off the GPU, {:.0f} us on again\n", at,
                   microseconds(found.suspend), microseconds(found.resume));
        break;
      case SuspensionFinding::State::off: fmt::print("{:<14} off: {}\n", at, found.why); break;
      case SuspensionFinding::State::unknown:
        fmt::print("{:<14} not known: {}\n", at, found.why);
        break;
    }
  }
}

void print_verdict(const DoctorFindings& findings) {
  print_lines("off", findings.off);
  if (!findings.wrong.empty()) print_lines("wrong", findings.wrong);
}

void print_doctor_json(Driver& driver, const Topology& topology, const DoctorFindings& findings) {
  json::array devices, links, copies, hbm;
  for (const DeviceId device : topology.devices()) {
    devices.push_back(device_json(device, topology.info(device)));
    for (const DeviceId to : topology.devices()) {
      const LinkKind kind = topology.link(device, to).kind;
      if (kind == LinkKind::same) continue;
      links.push_back(
          json::object{{"from", name_of(device)}, {"to", name_of(to)}, {"kind", to_string(kind)}});
    }
  }
  for (const auto& [route, gb_s] : findings.gb_s) {
    copies.push_back(json::object{{"from", to_string(route.first)},
                                  {"to", to_string(route.second)},
                                  {"bytes_s", gb_s * 1e9}});
  }
  for (const DoctorFindings::Hbm& one : findings.hbm) {
    json::object entry{{"at", name_of(one.device)}, {"idle_bytes", one.idle_bytes}};
    if (findings.copy_bytes > 0) {
      entry["after_copies_bytes"] = one.copies_bytes;
      entry["with_copy_contexts_bytes"] = one.own_context_bytes;
    }
    hbm.push_back(std::move(entry));
  }
  json::array places, suspensions;
  for (const auto& [device, found] : findings.suspensions) {
    suspensions.push_back(suspension_json(device, found));
  }
  for (const Place at : topology.places()) places.emplace_back(to_string(at));
  print_json(json::object{{"driver", driver.description()},
                          {"simulated", driver.simulated()},
                          {"support", support_json(findings.support)},
                          {"context_hold", driver.has_context_hold()},
                          {"places", std::move(places)},
                          {"gpus", std::move(devices)},
                          {"links", std::move(links)},
                          {"copy_bytes", findings.copy_bytes},
                          {"copies", std::move(copies)},
                          {"hbm", std::move(hbm)},
                          {"suspensions", std::move(suspensions)},
                          {"off", texts(findings.off)},
                          {"wrong", texts(findings.wrong)}});
}

}  // namespace vma
