#include "unit/control/fake_control_target.hpp"

#include "base/units.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

namespace vma {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

std::string name_of(const ControlMove& move) {
  std::string names;
  for (const Selector& selector : move.what) names += selector.text + " ";
  return names;
}
bool has(const ControlMove& move, std::string_view tag) {
  return std::ranges::find(move.what, tag, &Selector::tag) != move.what.end();
}

ControlAllocation small() {
  return {FakeControlTarget::first_address,        4 * MiB, 2 * MiB, "a \"tag\"\n", true, false, 0,
          {{gpu(0), 2 * MiB}, {host(0), 2 * MiB}}, {}};
}
ControlAllocation large() {
  return {FakeControlTarget::many_address, 2496 * MiB, 2 * MiB, "many", false, true, 96 * MiB,
          {{gpu(1), 2400 * MiB}},          {}};
}

/// Of every move, whatever it names.
ControlSelection selection() {
  ControlSelection selection{12, 48 * MiB, {}};
  for (std::uint64_t each = 0; each < 12; ++each) {
    selection.first.push_back({FakeControlTarget::first_address + each * 4 * MiB, 4 * MiB, "some"});
  }
  return selection;
}

/// Names in the objects of these are data.
bool is_data(std::string_view name) {
  return name == "bytes_at" || name == "gates_given_up_by_reason" || name == "moves_refused";
}

std::string type_of(const json::value& value) {
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "flag";
  if (value.is_array()) return "list";
  return value.is_null() ? "null" : "object";
}

void collect(const json::value& value, const std::string& path,
             std::map<std::string, std::string>& found) {
  if (!path.empty()) found[path] = type_of(value);
  if (const auto* list = value.if_array()) {
    for (const json::value& element : *list) collect(element, path + "[]", found);
  } else if (const auto* object = value.if_object()) {
    for (const auto& [name, member] : *object) {
      const std::string below =
          path.empty() ? std::string(name) : fmt::format("{}.{}", path, std::string_view(name));
      if (is_data(name)) {
        found[below] = "object";
      } else {
        collect(member, below, found);
      }
    }
  }
}

}  // namespace

ControlStatus FakeControlTarget::status() {
  return {"simulated h200x2",
          milliseconds(1500),
          policy_,
          {},
          paused_,
          7,
          1,
          2,
          2,
          {{gpu(0), 100 * MiB, 25 * MiB, 1e9}, {host(0), 400 * MiB, 2 * MiB, 0}},
          3 * MiB,
          5 * MiB};
}

std::vector<ControlAllocation> FakeControlTarget::allocations(std::uint64_t from,
                                                              std::size_t most) {
  std::vector<ControlAllocation> all;
  for (const ControlAllocation& each : {small(), large()}) {
    if (each.address >= from && all.size() < most) all.push_back(each);
  }
  return all;
}

/// The second was allocated first.
ControlPage FakeControlTarget::select(const std::vector<Selector>& what, std::uint64_t from,
                                      std::size_t most) {
  const std::vector<ControlAllocation> all{small(), large()};
  std::vector<Selectable> seen;
  for (const ControlAllocation& each : all) {
    seen.push_back({each.address, each.bytes, all.size() - seen.size(), each.tag});
  }
  const auto has_chunk_at = [&](std::size_t which, Place at) {
    return all[which].bytes_at.contains(at);
  };
  ControlPage page;
  for (const std::size_t which : resolve(what, seen, has_chunk_at, "vma::control")) {
    const ControlAllocation& found = all[which];
    ++page.selected.count;
    page.selected.bytes += found.bytes;
    page.selected.first.push_back({found.address, found.bytes, found.tag});
    if (found.address < from) continue;
    if (page.allocations.size() < most) page.allocations.push_back(found);
    page.more = page.allocations.back().address < found.address;
  }
  return page;
}

ControlAllocation FakeControlTarget::allocation(std::uint64_t address) {
  if (address >= many_address) {
    ControlAllocation found = large();
    for (std::size_t i = 0; i < many_extents; ++i) {
      found.extents.push_back({i * 2 * MiB, 2 * MiB, gpu(1), i});
    }
    return found;
  }
  if (address < first_address || address >= first_address + 4 * MiB) {
    throw Error(ErrorKind::unknown_pointer, "vma::where", fmt::format("{:#x}", address));
  }
  ControlAllocation found = small();
  found.extents = {{0, 2 * MiB, gpu(0), 1}, {2 * MiB, 2 * MiB, host(0), 0, true}};
  return found;
}

ControlPrediction FakeControlTarget::predict(const ControlMove& move) {
  if (has(move, "throws")) throw std::runtime_error("a bug of the target");
  if (has(move, "no memory")) throw std::bad_alloc();
  if (has(move, "strange")) throw 7;
  return {4 * MiB, 2, milliseconds(20), milliseconds(1), 2 * MiB, selection()};
}

std::uint64_t FakeControlTarget::start(const std::string& call, bool fails) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(call);
  ControlEvent event;
  event.kind = fails                      ? ControlEvent::Kind::operation_failed
               : call.starts_with("step") ? ControlEvent::Kind::stepped
                                          : ControlEvent::Kind::operation_done;
  event.operation = ++operations_;
  event.text = fails ? "no room at gpu(1)" : call;
  ring_.add(event);
  return operations_;
}

ControlStarted FakeControlTarget::start_move(const ControlMove& move) {
  last_move_ = move.what;
  const std::string call = fmt::format("move {}to {}", name_of(move), to_string(move.to));
  return {start(call, has(move, "fails")), selection()};
}

std::uint64_t FakeControlTarget::start_drain(Place at) {
  return start("drain " + to_string(at), false);
}

std::uint64_t FakeControlTarget::start_capacity(Place at, std::uint64_t bytes) {
  return start(fmt::format("capacity {} {}", to_string(at), bytes), false);
}

void FakeControlTarget::set_policy(const std::string& text) {
  if (text != "stay" && text != "cost_benefit") {
    throw Error(ErrorKind::invalid_argument, "vma::set_policy",
                text + ": known: stay cost_benefit");
  }
  policy_ = text;
}

void FakeControlTarget::pause() {
  paused_ = true;
  const std::lock_guard lock(mutex_);
  calls_.push_back("pause");
}

void FakeControlTarget::resume() {
  paused_ = false;
  const std::lock_guard lock(mutex_);
  calls_.push_back("resume");
}

std::uint64_t FakeControlTarget::start_step() {
  if (!paused_) throw Error(ErrorKind::invalid_argument, "vma::step", "the scheduler is running");
  return start("step", false);
}

std::vector<ControlDecision> FakeControlTarget::explain(std::uint64_t address, std::size_t most) {
  ControlDecision decision{milliseconds(900),
                           address,
                           2 * MiB,
                           host(0),
                           gpu(1),
                           "cost_benefit",
                           "gpu(1) uses it 4.1 GB/s",
                           "moved",
                           0.25,
                           milliseconds(10),
                           milliseconds(11)};
  std::vector<ControlDecision> found{decision};
  decision.verdict = "cooldown";
  decision.took.reset();
  if (most > 1) found.push_back(decision);
  return found;
}

std::vector<std::string> FakeControlTarget::explain_now(std::uint64_t address) {
  return {fmt::format("chunk 0 of {:#x}: 2.0 MiB at host(0), moved 0 times", address)};
}

ControlEvents FakeControlTarget::events(std::uint64_t since, std::size_t most) {
  return ring_.since(since, most);
}

ControlStats FakeControlTarget::stats() {
  ControlStats stats;
  stats.runtime.places = {{gpu(0), 100 * MiB, 25 * MiB, 2 * MiB, MiB, 0}};
  stats.runtime.allocations = 2;
  stats.runtime.bytes_moved = 3'000'000'000;
  stats.runtime.gates_given_up_by_reason = {{"a \"quoted\" \\ reason\nof two lines", 3}};
  stats.runtime.stall = {4, milliseconds(1), milliseconds(2), milliseconds(3)};
  stats.runtime.skew = {2, std::chrono::microseconds(9), std::chrono::microseconds(42),
                        std::chrono::microseconds(42)};
  GpuLoad load{gpu(1), 0.5, 0.25, 30 * MiB, 100 * MiB, 2e9, {}, {}, 1e6};
  stats.runtime.loads = {GpuLoads::State::on, "a \xff reason", milliseconds(250), {load}};
  if (answers_starting_ > 0) {
    --answers_starting_;
    stats.runtime.loads = {GpuLoads::State::starting, "", milliseconds(-1), {}};
  }
  stats.scheduler.ticks = 7;
  stats.scheduler.moves_refused = {{"cooldown", 5}, {"no room", 6}};
  stats.scheduler.prediction_error = 0.0625;
  return stats;
}

std::vector<std::string> FakeControlTarget::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

void FakeControlTarget::add_full_event() {
  ControlEvent event;
  event.address = event.bytes = event.operation = 1;
  event.from = event.to = gpu(0);
  event.took = event.stall = Time{1};
  event.stop = StopKind::suspension;
  event.text = "text";
  event.times = 2;
  ring_.add(event);
}

std::map<std::string, std::string> member_types(const json::value& answer) {
  std::map<std::string, std::string> found;
  collect(answer, "", found);
  return found;
}

}  // namespace vma
