#include "lab/replay/replay_report.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <map>
#include <string>
#include <vector>

namespace vma {
namespace {

template <typename Value>
boost::json::object by_name(const std::map<std::string, Value>& values) {
  boost::json::object object;
  for (const auto& [name, value] : values) object[name] = value;
  return object;
}

template <typename Value>
boost::json::array list_of(const std::vector<Value>& values) {
  return boost::json::array(values.begin(), values.end());
}

boost::json::array devices(const ReplayReport& report) {
  boost::json::array list;
  for (const ReplayDevice& device : report.devices) {
    list.push_back(boost::json::object{{"accesses", device.accesses},
                                       {"bytes", device.bytes},
                                       {"busy_ns", device.busy.count()},
                                       {"stopped_ns", device.stopped.count()},
                                       {"local_s", device.local_s},
                                       {"bytes_by_place", list_of(device.bytes_by_place)}});
  }
  return list;
}

boost::json::object tenants(const ReplayReport& report) {
  boost::json::object object;
  for (const auto& [tag, tenant] : report.tenants) {
    object[tag] = boost::json::object{{"accesses", tenant.accesses},
                                      {"bytes", tenant.bytes},
                                      {"access_s", tenant.access_s},
                                      {"local_s", tenant.local_s}};
  }
  return object;
}

boost::json::array windows(const ReplayReport& report) {
  boost::json::array list;
  for (const ReplayWindow& window : report.windows) {
    list.push_back(boost::json::object{{"bytes", window.bytes},
                                       {"access_s", window.access_s},
                                       {"local_s", window.local_s},
                                       {"bytes_moved", window.bytes_moved},
                                       {"resident", list_of(window.resident)}});
  }
  return list;
}

boost::json::array marks(const ReplayReport& report) {
  boost::json::array list;
  for (const auto& [time, text] : report.marks)
    list.push_back(boost::json::object{{"time_ns", time.count()}, {"text", text}});
  return list;
}

}  // namespace

boost::json::object to_json(const ReplayReport& report) {
  return {{"begin_ns", report.begin.count()},
          {"end_ns", report.end.count()},
          {"events", report.events},
          {"closed_loop", report.closed_loop},
          {"accesses", report.accesses},
          {"accesses_lost", report.accesses_lost},
          {"allocations_lost", report.allocations_lost},
          {"chunks_spilled", report.chunks_spilled},
          {"hints", report.hints},
          {"hints_lost", report.hints_lost},
          {"bytes", report.bytes},
          {"access_s", report.access_s},
          {"local_s", report.local_s},
          {"paused_s", report.paused_s},
          {"wait_s", report.wait_s},
          {"gates", report.gates},
          {"stall_ns", report.stall.count()},
          {"skew_ns", report.skew.count()},
          {"moves", report.moves},
          {"bytes_moved", report.bytes_moved},
          {"move_s", report.move_s},
          {"move_stall_s", report.move_stall_s},
          {"thrashes", report.thrashes},
          {"moves_wanted", report.moves_wanted},
          {"moves_refused", by_name(report.moves_refused)},
          {"pace_stops", report.pace_stops},
          {"advances", report.advances},
          {"advances_lost", report.advances_lost},
          {"policy_failures", report.policy_failures},
          {"ticks", report.ticks},
          {"places", list_of(report.places)},
          {"bytes_by_route", by_name(report.bytes_by_route)},
          {"bytes_by_place", by_name(report.bytes_by_place)},
          {"bytes_by_link", by_name(report.bytes_by_link)},
          {"tenants", tenants(report)},
          {"devices", devices(report)},
          {"window_ns", report.window.count()},
          {"windows", windows(report)},
          {"marks", marks(report)}};
}

}  // namespace vma
