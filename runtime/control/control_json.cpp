#include "control/control_json.hpp"

#include "base/units.hpp"

#include <vma/counters.hpp>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace vma {
namespace {

namespace json = boost::json;

std::string hex(std::uint64_t address) {
  return fmt::format("{:#x}", address);
}

/// Length of the UTF-8 sequence that begins with `lead`, 0 if none does. Restricting the second
/// byte to `least`..`most` excludes overlong forms and surrogates.
int sequence_length(unsigned char lead, unsigned char& least, unsigned char& most) {
  least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    unsigned char least = 0, most = 0;
    const auto length = static_cast<std::size_t>(
        sequence_length(static_cast<unsigned char>(text[position]), least, most));
    if (length == 0 || position + length > text.size()) return false;
    for (std::size_t next = 1; next < length; ++next) {
      const auto byte = static_cast<unsigned char>(text[position + next]);
      if (byte < least || byte > most) return false;
      least = 0x80;
      most = 0xBF;
    }
    position += length;
  }
  return true;
}

json::object to_json(const DurationSummary& summary) {
  return {{"count", summary.count},
          {"median_s", in_seconds(summary.median)},
          {"p99_s", in_seconds(summary.p99)},
          {"max_s", in_seconds(summary.max)}};
}

template <typename Value>
constexpr bool is_optional = false;
template <typename Value>
constexpr bool is_optional<std::optional<Value>> = true;

template <typename Counts>
json::object counts_to_json(const Counts& counts) {
  json::object object;
  for (const auto& [name, count] : counts) object[to_json_text(name)] = count;
  return object;
}

std::string_view to_string(GpuLoads::State state) noexcept {
  switch (state) {
    case GpuLoads::State::off: return "off";
    case GpuLoads::State::starting: return "starting";
    case GpuLoads::State::on: return "on";
  }
  return "unknown";
}

template <typename Value>
json::value counter_to_json(const Value& value) {
  return json::value(value);
}
json::value counter_to_json(double value) {
  return to_json_number(value);
}
json::value counter_to_json(std::chrono::nanoseconds value) {
  return in_seconds(value);
}
json::value counter_to_json(const DurationSummary& summary) {
  return to_json(summary);
}
json::value counter_to_json(const std::map<std::string, std::size_t>& counts) {
  return counts_to_json(counts);
}

/// Adds all counters of the table. Omits unknown values.
template <typename Stats>
json::object with_counters(json::object object, const Stats& stats) {
  for_each_counter<Stats>([&](const auto& counter) {
    const auto& value = stats.*counter.member;
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (is_optional<Value>) {
      if (value) object[counter.name] = counter_to_json(*value);
    } else {
      object[counter.name] = counter_to_json(value);
    }
  });
  return object;
}

json::object to_json(const GpuLoads& loads) {
  json::array gpus;
  for (const GpuLoad& load : loads.gpus) {
    gpus.push_back(with_counters({{"at", to_string(load.at)}}, load));
  }
  json::object object{{"state", to_string(loads.state)}};
  if (!loads.reason.empty()) object["reason"] = to_json_text(loads.reason);
  if (loads.age >= std::chrono::nanoseconds(0)) object["age_s"] = in_seconds(loads.age);
  object["gpus"] = std::move(gpus);
  return object;
}

json::object to_json(const RuntimeStats& stats) {
  json::array places;
  for (const RuntimeStats::PlaceStats& place : stats.places) {
    places.push_back(with_counters({{"at", to_string(place.at)}}, place));
  }
  return with_counters({{"places", std::move(places)}, {"loads", to_json(stats.loads)}}, stats);
}

}  // namespace

json::value to_json_number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

json::string to_json_text(std::string_view text) {
  json::string whole(text);
  if (is_utf8(text)) return whole;
  for (char& character : whole) {
    if (static_cast<unsigned char>(character) > 127) character = '?';
  }
  return whole;
}

std::string_view to_string(ControlEvent::Kind kind) noexcept {
  switch (kind) {
    case ControlEvent::Kind::move_started: return "move_started";
    case ControlEvent::Kind::move_done: return "move_done";
    case ControlEvent::Kind::move_failed: return "move_failed";
    case ControlEvent::Kind::operation_done: return "operation_done";
    case ControlEvent::Kind::operation_failed: return "operation_failed";
    case ControlEvent::Kind::decision: return "decision";
    case ControlEvent::Kind::policy_changed: return "policy_changed";
    case ControlEvent::Kind::policy_failed: return "policy_failed";
    case ControlEvent::Kind::paused: return "paused";
    case ControlEvent::Kind::resumed: return "resumed";
    case ControlEvent::Kind::stepped: return "stepped";
  }
  return "unknown";
}

json::object to_json(const ControlStatus& status) {
  json::array places;
  for (const ControlPlace& place : status.places) {
    json::object object{{"at", to_string(place.at)},
                        {"used_bytes", place.used_bytes},
                        {"demand_bytes_s", to_json_number(place.demand_bytes_s)},
                        {"closed", place.closed}};
    if (place.capacity_bytes != UINT64_MAX) object["capacity_bytes"] = place.capacity_bytes;
    places.push_back(std::move(object));
  }
  json::array operations;
  for (const ControlStatus::Operation& each : status.operations) {
    operations.push_back(json::object{{"operation", each.operation},
                                      {"to", to_string(each.to)},
                                      {"bytes", each.bytes},
                                      {"bytes_done", each.bytes_done},
                                      {"running_s", in_seconds(each.running)}});
  }
  return {{"description", to_json_text(status.description)},
          {"uptime_s", in_seconds(status.uptime)},
          {"policy", to_json_text(status.policy)},
          {"moves_held", status.held},
          {"paused", status.paused},
          {"ticks", status.ticks},
          {"moves_running", status.moves_running},
          {"moves_queued", status.moves_queued},
          {"allocations", status.allocations},
          {"backing_bytes", status.backing_bytes},
          {"passed_bytes", status.passed_bytes},
          {"operations", std::move(operations)},
          {"places", std::move(places)}};
}

json::object to_json(const ControlAllocation& allocation) {
  json::object bytes_at;
  for (const auto& [at, bytes] : allocation.bytes_at) bytes_at[to_string(at)] = bytes;
  return {{"address", hex(allocation.address)},    {"bytes", allocation.bytes},
          {"chunk_bytes", allocation.chunk_bytes}, {"tag", to_json_text(allocation.tag)},
          {"site", to_json_text(allocation.site)}, {"movable", allocation.movable},
          {"parked", allocation.parked},           {"dropped_bytes", allocation.dropped_bytes},
          {"bytes_at", std::move(bytes_at)}};
}

json::object to_json(const Extent& extent) {
  return {{"offset", extent.offset},
          {"bytes", extent.bytes},
          {"at", to_string(extent.at)},
          {"generation", extent.generation},
          {"dropped", extent.dropped}};
}

json::object to_json(const ControlPrediction& prediction) {
  return {{"bytes", prediction.bytes},
          {"chunks", prediction.chunks},
          {"took_s", in_seconds(prediction.took)},
          {"stall_s", in_seconds(prediction.stall)},
          {"bytes_no_room", prediction.bytes_no_room}};
}

json::object to_json(const ControlSelection& selection) {
  json::array first;
  for (const ControlSelection::One& one : selection.first) {
    first.push_back(json::object{
        {"address", hex(one.address)}, {"bytes", one.bytes}, {"tag", to_json_text(one.tag)}});
  }
  return {{"count", selection.count}, {"bytes", selection.bytes}, {"first", std::move(first)}};
}

json::object to_json(const ControlDecision& decision) {
  json::object object{{"at_s", in_seconds(decision.at)},
                      {"address", hex(decision.address)},
                      {"bytes", decision.bytes},
                      {"from", to_string(decision.from)},
                      {"to", to_string(decision.to)},
                      {"policy", to_json_text(decision.policy)},
                      {"reason", to_json_text(decision.reason)},
                      {"verdict", to_json_text(decision.verdict)},
                      {"value", to_json_number(decision.value)},
                      {"predicted_s", in_seconds(decision.predicted)}};
  if (decision.took) object["took_s"] = in_seconds(*decision.took);
  if (decision.times > 1) {
    object["times"] = decision.times;
    object["last_s"] = in_seconds(decision.last);
  }
  return object;
}

json::object to_json(const ControlEvent& event) {
  json::object object{{"sequence", event.sequence},
                      {"kind", to_string(event.kind)},
                      {"at_s", in_seconds(event.at)}};
  if (event.operation != 0) object["operation"] = event.operation;
  if (event.address != 0) object["address"] = hex(event.address);
  if (event.bytes != 0) object["bytes"] = event.bytes;
  if (event.times > 1) object["times"] = event.times;
  if (event.from) object["from"] = to_string(*event.from);
  if (event.to) object["to"] = to_string(*event.to);
  if (event.took != Time{0}) object["took_s"] = in_seconds(event.took);
  if (event.stall != Time{0}) object["stall_s"] = in_seconds(event.stall);
  if (event.stop != StopKind::none) object["stop"] = to_string(event.stop);
  if (!event.text.empty()) object["text"] = to_json_text(event.text);
  return object;
}

json::object to_json(const ControlStats& stats) {
  return {{"runtime", to_json(stats.runtime)}, {"scheduler", with_counters({}, stats.scheduler)}};
}

}  // namespace vma
