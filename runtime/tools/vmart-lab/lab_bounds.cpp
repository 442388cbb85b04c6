#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "lab/bounds/program/linear_program.hpp"
#include "lab/bounds/program/placement_program.hpp"
#include "lab/experiments/cell_runner.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/trace/trace_files.hpp"
#include "machine/machine_file.hpp"

#include <vma/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace vma {
namespace {

boost::json::value json_of(const std::optional<double>& number) {
  return number ? boost::json::value(*number) : boost::json::value(nullptr);
}

boost::json::object json_of(const PlacementBounds& bounds) {
  boost::json::array rows;
  for (const PlacementBounds::Row& row : bounds.rows) {
    const auto gap = row.bound_s ? gap_of(*row.bound_s, row.plan_s) : std::nullopt;
    rows.push_back(boost::json::object{{"name", row.name},
                                       {"bound_s", json_of(row.bound_s)},
                                       {"for_all_policies", row.bound_s && row.for_all},
                                       {"plan_s", json_of(row.plan_s)},
                                       {"gap", json_of(gap)}});
  }
  return {{"floor_s", bounds.floor_s}, {"chunks", bounds.chunks}, {"uses", bounds.uses},
          {"blocks", bounds.blocks},   {"epochs", bounds.epochs}, {"rows", std::move(rows)}};
}

std::string text_of(const std::optional<double>& number, double factor, int digits) {
  return number ? fmt::format("{:.{}f}", *number * factor, digits) : "-";
}

void print(const ReplayCommand& command, const PlacementBounds& bounds) {
  fmt::print("{} on {}, {} router: {} chunks, {} uses in {} blocks, {} epochs\n", command.trace,
             command.machine, command.router, bounds.chunks, bounds.uses, bounds.blocks,
             bounds.epochs);
  fmt::print("{:<18} {:>14} {:>14} {:>8}\n", "", "no less than", "a plan pays", "gap %");
  fmt::print("{:<18} {:>14.6f} {:>14} {:>8}\n", "floor", bounds.floor_s, "-", "-");
  for (const PlacementBounds::Row& row : bounds.rows) {
    const auto gap = row.bound_s ? gap_of(*row.bound_s, row.plan_s) : std::nullopt;
    fmt::print("{:<18} {:>14} {:>14} {:>8}{}\n", row.name, text_of(row.bound_s, 1, 6),
               text_of(row.plan_s, 1, 6), text_of(gap, 100, 3),
               row.bound_s && !row.for_all ? "  for plans of its kind only" : "");
  }
  const Bound best = bounds.best();
  const std::string plan = best.plan_s
                               ? fmt::format("the best plan found costs {:.6f} s", *best.plan_s)
                               : "no plan was found that fits into this memory";
  fmt::print("no policy costs less than {:.6f} s ({}); {}\n", best.lower_bound_s, best.kind, plan);
}

/// Adds the name of the trace to errors of the lab, which do not know it.
Error named(const Error& error, const ReplayCommand& command) {
  if (error.call() != "bounds") return error;
  return Error(error.kind(), "vmart-lab bounds",
               fmt::format("{}: {}", command.trace, error.what()));
}

void write_program(const PlacementInstance& instance, const BoundsCommand& chosen) try {
  const std::string about =
      fmt::format("vmart-lab bounds: {} chunks in {} blocks; see docs/guide/bounds.md",
                  instance.chunks.size(), instance.blocks);
  write_lp(PlacementProgram()(instance), chosen.lp, about, "microseconds");
} catch (const Error& error) {
  throw named(error, chosen.setting);
}

bool is_closed_loop(const ReplayCommand& command) {
  const auto trace = open_trace(command.trace, command.bad_lines_max);
  for (auto events = trace->next(); !events.empty(); events = trace->next())
    if (std::ranges::any_of(events, needs_tasks)) return true;
  return false;
}

int run_loop_bound(const ReplayCommand& command, const ReplayMachine& machine,
                   const ReplayOptions& options) try {
  const auto trace = open_trace(command.trace, command.bad_lines_max);
  Bound bound = find_loop_bound(*trace, machine, command.router, options);
  replay_hindsight({machine, command.trace, true, command.router, options}, command.bad_lines_max,
                   bound);
  if (command.json) {
    const boost::json::object json{{"lower_bound_s", bound.lower_bound_s},
                                   {"plan_s", json_of(bound.plan_s)},
                                   {"kind", bound.kind},
                                   {"gap", json_of(bound.gap)},
                                   {"metric", bound.metric}};
    fmt::print("{}\n", boost::json::serialize(boost::json::object{{"bound", json}}));
  } else {
    const std::string plan =
        bound.plan_s
            ? fmt::format("the best placement known without moves takes {:.6f} s", *bound.plan_s)
            : "without moves, accesses are lost or requests give way";
    fmt::print("{} on {}, {} router: with no policy it takes less than {:.6f} s ({}); {}\n",
               command.trace, command.machine, command.router, bound.lower_bound_s, bound.kind,
               plan);
  }
  return 0;
} catch (const Error& error) {
  throw named(error, command);
}

}  // namespace

int run_bounds(const BoundsCommand& chosen) {
  const ReplayCommand& command = chosen.setting;
  ReplayMachine machine = replay_machine(load_machine(command.machine));
  cap_places(machine, {command.hbm_gib, command.host_gib});
  ReplayOptions options;
  options.chunk_bytes = bytes_of(command.chunk_mib, MiB, "--chunk");
  if (is_closed_loop(command)) {
    if (chosen.on_time || !chosen.lp.empty())
      throw Error(
          ErrorKind::invalid_argument, "vmart-lab bounds",
          fmt::format("{} is a closed loop: --on-time and --lp are for open ones", command.trace));
    return run_loop_bound(command, machine, options);
  }
  if (chosen.on_time) options.queue_max = 0;
  const auto trace = open_trace(command.trace, command.bad_lines_max);
  const PlacementInstance instance = [&] {
    try {
      return trace_instance(*trace, machine, command.router, options);
    } catch (const Error& error) {
      throw named(error, command);
    }
  }();
  if (!chosen.lp.empty()) write_program(instance, chosen);
  const PlacementBounds bounds = placement_bounds(instance);
  if (command.json) {
    boost::json::object json = json_of(bounds);
    const Bound best = bounds.best();
    json["bound"] = boost::json::object{{"lower_bound_s", best.lower_bound_s},
                                        {"plan_s", json_of(best.plan_s)},
                                        {"kind", best.kind},
                                        {"gap", json_of(best.gap)}};
    fmt::print("{}\n", boost::json::serialize(json));
  } else {
    print(command, bounds);
  }
  return 0;
}

}  // namespace vma
