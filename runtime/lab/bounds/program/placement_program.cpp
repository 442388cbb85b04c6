#include "lab/bounds/program/placement_program.hpp"

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/program/chunk_graph.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace vma {
namespace {

constexpr double microseconds = 1e6;
constexpr double nothing = 1e-9;  ///< Costs below this, in microseconds, are rounding errors.
/// Largest factor of a row, in units of the row: a solver's tolerances then stay far below the
/// smallest factor.
constexpr double units_max = 10'000;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorKind::invalid_argument, "bounds", why);
}

class ProgramBuilder {
 public:
  ProgramBuilder(const PlacementInstance& instance, const PlacementProgram& limits)
      : instance_(instance),
        limits_(limits),
        tight_(instance),
        step_(instance.place_count()),
        cells_(PathStep::states(instance.place_count())) {}

  LinearProgram build() {
    double constant_s = instance_.floor_s;
    for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
      const double alone = shortest(chunk);
      if (!std::isfinite(alone)) refuse(fmt::format("no path exists for chunk {}", chunk));
      if (count_work(instance_.chunks[chunk]) == 0) {
        constant_s += alone;
        continue;
      }
      ChunkGraph graph(instance_, tight_, chunk);
      graph.thin_out();
      add_chunk(graph, chunk);
    }
    program_.constant = constant_s * microseconds;
    for (const auto& [where, terms] : rooms_) add_room(where.first, where.second, terms);
    return std::move(program_);
  }

 private:
  using Rows = std::vector<LinearProgram::Row>;
  using Terms = std::vector<LinearProgram::Term>;  // In `rooms_`, the factors are bytes.

  /// The cost of the chunk's cheapest path with unlimited room.
  double shortest(std::size_t number) {
    const PlacementChunk& chunk = instance_.chunks[number];
    step_.begin(chunk, cells_);
    ChunkWalk walk(instance_, number);
    for (auto block = walk.next(); block; block = walk.next())
      step_.advance(instance_.moves_of(chunk), walk.enter(*block), cells_);
    return std::ranges::min(cells_, {}, &PathCell::cost).cost;
  }
  /// Number of block ends at which room for the chunk could be short. Throws beyond the work limit.
  std::size_t count_work(const PlacementChunk& chunk) {
    const std::size_t ends = tight_.ends(chunk);
    // A late use creates two layers.
    if (ends > 0) work_ += (ends + 2 * chunk.uses) * cells_.size() * cells_.size() * cells_.size();
    if (work_ > limits_.work_max)
      refuse("too large for a program; use larger chunks or a shorter trace");
    return ends;
  }

  /// Adds one row per state: flow in minus flow out.
  void add_chunk(const ChunkGraph& graph, std::size_t chunk) {
    name_ = fmt::format("c{}", chunk);
    bytes_ = static_cast<double>(instance_.chunks[chunk].bytes);
    Rows open(1), next;
    open[0].name = name_;
    open[0].limit = 1;
    for (std::size_t layer = 0; layer < graph.layers(); ++layer) {
      next.assign(graph.states(), {});
      for (std::size_t to = 0; to < graph.states(); ++to)
        next[to].name = fmt::format("{}_b{}s{}", name_, graph.block(layer), to);
      add_direct(graph, layer, open, next);
      if (const ChunkHub* const hub = graph.hub(layer)) add_hub(graph, layer, *hub, open, next);
      close(open);
      open.swap(next);
    }
  }
  void add_direct(const ChunkGraph& graph, std::size_t layer, Rows& open, Rows& next) {
    for (std::size_t from = 0; from < open.size(); ++from) {
      for (std::size_t to = 0; to < graph.states(); ++to) {
        if (graph.cost(layer, from, to) == ChunkGraph::never) continue;
        const std::uint32_t column =
            add_step(fmt::format("{}_b{}s{}", open[from].name, graph.block(layer), to),
                     graph.cost(layer, from, to));
        open[from].terms.push_back({column, layer == 0 ? 1.0 : -1.0});
        enter(graph, layer, to, column, next[to]);
      }
    }
  }
  void add_hub(const ChunkGraph& graph, std::size_t layer, const ChunkHub& hub, Rows& open,
               Rows& next) {
    Rows point(1);
    for (std::size_t from = 0; from < open.size(); ++from) {
      if (hub.into[from] == ChunkGraph::never) continue;
      const std::uint32_t column =
          add_step(fmt::format("{}_b{}h", open[from].name, graph.block(layer)), hub.into[from]);
      open[from].terms.push_back({column, -1});
      point[0].terms.push_back({column, 1});
    }
    point[0].name = fmt::format("{}_b{}h", name_, graph.block(layer));
    for (std::size_t to = 0; to < graph.states(); ++to) {
      if (hub.out[to] == ChunkGraph::never) continue;
      const std::uint32_t column =
          add_step(fmt::format("{}_b{}s{}", point[0].name, graph.block(layer), to), hub.out[to]);
      point[0].terms.push_back({column, -1});
      enter(graph, layer, to, column, next[to]);
    }
    close(point);
  }
  std::uint32_t add_step(std::string name, double seconds) {
    if (program_.columns.size() == limits_.steps_max) {
      refuse(
          fmt::format("a program of more than {} variables; use larger chunks", limits_.steps_max));
    }
    const double cost = seconds * microseconds;
    program_.columns.push_back({std::move(name), cost < nothing ? 0 : cost});
    return static_cast<std::uint32_t>(program_.columns.size() - 1);
  }
  void enter(const ChunkGraph& graph, std::size_t layer, std::size_t state, std::uint32_t column,
             LinearProgram::Row& entered) {
    entered.terms.push_back({column, 1});
    if (!graph.takes_room(layer, state)) return;
    rooms_[{graph.block(layer), state % instance_.place_count()}].push_back({column, bytes_});
  }
  void close(Rows& rows) {
    for (LinearProgram::Row& row : rows)
      if (!row.terms.empty()) program_.rows.push_back(std::move(row));
  }

  void add_room(std::uint32_t block, std::size_t place, const Terms& terms) {
    std::uint64_t common = 0;
    double largest = 0;
    for (const LinearProgram::Term& term : terms) {
      common = std::gcd(common, static_cast<std::uint64_t>(term.factor));
      largest = std::max(largest, term.factor);
    }
    if (common == 0) return;
    const double whole = static_cast<double>(common);
    const bool few = largest / whole <= units_max;
    const double unit = few ? whole : largest / units_max;
    const auto capacity = static_cast<double>(instance_.capacities[place]);
    LinearProgram::Row row;
    row.name = fmt::format("room_b{}_p{}", block, place);
    row.equal = false;
    row.limit = few ? std::floor(capacity / unit) : capacity / unit;
    for (const LinearProgram::Term& term : terms)
      row.terms.push_back({term.column, term.factor / unit});
    program_.rows.push_back(std::move(row));
  }

  const PlacementInstance& instance_;
  const PlacementProgram& limits_;
  const TightRooms tight_;
  PathStep step_;
  std::vector<PathCell> cells_;
  std::size_t work_ = 0;
  std::string name_;  // Of the current chunk, like `bytes_`.
  double bytes_ = 0;
  std::map<std::pair<std::uint32_t, std::size_t>, Terms> rooms_;  // Keyed by block and place.
  LinearProgram program_;
};

}  // namespace

LinearProgram PlacementProgram::operator()(const PlacementInstance& instance) const {
  return ProgramBuilder(instance, *this).build();
}

}  // namespace vma
