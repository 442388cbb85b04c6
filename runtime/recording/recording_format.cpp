#include "recording/recording_format.hpp"

#include "base/json.hpp"
#include "costs/costs_json.hpp"
#include "recording/block_file.hpp"
#include "recording/recording_format.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <array>

namespace vma {
namespace {

constexpr std::int64_t recorded_places_max = 256;  // A place is stored in one byte.

boost::json::object written(const RecordedScheduler& scheduler) {
  const auto bytes = std::min<std::uint64_t>(scheduler.copy_budget_bytes, INT64_MAX);
  return {{"policy", scheduler.policy},
          {"half_life_ns", scheduler.half_life.count()},
          {"drain_ns", scheduler.collect_every.count()},
          {"tick_ns", scheduler.tick.count()},
          {"stall_budget_ns", scheduler.stall_budget.count()},
          {"gate_limit_ns", scheduler.gate_limit.count()},
          {"copy_budget_bytes", bytes},
          {"stall_ahead_ns", scheduler.stall_ahead.count()},
          {"max_stall_ns", scheduler.max_stall.count()}};
}

RecordedScheduler read_scheduler(JsonReader json) {
  RecordedScheduler scheduler;
  scheduler.policy = json.text("policy");
  const auto time = [&](std::string_view name) { return Time(json.integer(name, 0, INT64_MAX)); };
  const auto period = [&](std::string_view name) {  // From a microsecond to a day.
    return Time(json.integer(name, 1'000, 86'400'000'000'000));
  };
  scheduler.half_life = period("half_life_ns");
  scheduler.collect_every = period("drain_ns");
  scheduler.tick = period("tick_ns");
  scheduler.stall_budget = time("stall_budget_ns");
  scheduler.gate_limit = time("gate_limit_ns");
  scheduler.copy_budget_bytes =
      static_cast<std::uint64_t>(json.integer("copy_budget_bytes", 0, INT64_MAX));
  // In older recordings nothing was spent ahead.
  scheduler.stall_ahead = json.has("stall_ahead_ns") ? time("stall_ahead_ns") : Time::zero();
  if (json.has("max_stall_ns")) scheduler.max_stall = time("max_stall_ns");
  json.finish();
  return scheduler;
}

void read_machine(JsonReader json, RecordingHeader& header) {
  header.machine = json.has("description") ? json.text("description") : "";
  const std::size_t places = json.list("places").size();
  if (places > recorded_places_max) json.refuse("places", "are too many");
  for (std::size_t at = 0; at < places; ++at) {
    JsonReader place = json.element("places", at);
    PlaceState& state = header.places.emplace_back();
    state.place = parse_place(place.text("location"));
    state.capacity_bytes =
        static_cast<std::uint64_t>(place.integer("capacity_bytes", 0, INT64_MAX));
    place.finish();
  }
  const auto gpus = json.integer("gpus", 0, static_cast<std::int64_t>(places));
  header.costs = MachineCosts(static_cast<std::size_t>(gpus), places);
  read_costs(json, header.costs, CostsIn::recording);
  header.gaps = read_gaps(json, static_cast<std::size_t>(gpus));
  header.peers = read_peer_links(json, static_cast<std::size_t>(gpus));
  if (json.has("scheduler")) header.scheduler = read_scheduler(json.object("scheduler"));
  json.finish();
}

}  // namespace

std::string write_machine_json(const RecordingHeader& header) {
  boost::json::object json;
  if (!header.machine.empty()) json["description"] = header.machine;
  boost::json::array& places = json["places"].emplace_array();
  for (const PlaceState& place : header.places) {
    const auto capacity = std::min<std::uint64_t>(place.capacity_bytes, INT64_MAX);
    places.emplace_back(
        boost::json::object{{"location", to_string(place.place)}, {"capacity_bytes", capacity}});
  }
  json["gpus"] = header.costs.gpus();
  write_costs(json, header.costs, CostsIn::recording);
  write_gaps(json, header.gaps);
  write_peer_links(json, header.peers);
  if (header.scheduler) json["scheduler"] = written(*header.scheduler);
  return boost::json::serialize(json);
}

void read_machine_json(std::string_view json, const std::string& file, RecordingHeader& header) {
  boost::system::error_code failed;
  const boost::json::value value =
      boost::json::parse(boost::json::string_view(json.data(), json.size()), failed);
  if (failed) {
    throw Error(ErrorKind::invalid_argument, "RecordingReader",
                fmt::format("{}: offset {}: the machine is not valid JSON: {}", file,
                            recording_file.header_bytes(), failed.message()));
  }
  read_machine(JsonReader(value, file, "machine", "RecordingReader"), header);
}

std::vector<std::uint8_t> write_recording_header(const RecordingHeader& header,
                                                 std::string_view machine_json) {
  std::array<std::uint8_t, recording_file.fields_bytes> fields{};
  std::uint8_t* at = put_fixed(fields.data(), header.clock_start_utc_ns);
  at = put_fixed(at, header.process);
  at = put_fixed(at, header.file);
  put_fixed(at, header.first_file);
  return block_file_header(recording_file, fields, machine_json);
}

}  // namespace vma
