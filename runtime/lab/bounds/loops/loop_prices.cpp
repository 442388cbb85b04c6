#include "lab/bounds/loops/loop_prices.hpp"

#include <algorithm>

namespace vma {
namespace {

PlaceId place_id(std::size_t place) {
  return PlaceId{static_cast<std::uint8_t>(place)};
}

void mix_into(std::vector<double>& sums, const std::vector<double>& other, double share) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += share * (other[i] - sums[i]);
}

}  // namespace

LoopWindows::LoopWindows(const LoopGraph& graph, const ReplayMachine& machine)
    : links_(machine.links.size()), places_(machine.places.size()), devices_(machine.costs.gpus()) {
  std::vector<double> heads;
  for (const LoopTask& task : graph.tasks) heads.push_back(task.head_s);
  std::ranges::sort(heads);
  begins_.push_back(0);
  for (std::size_t i = 1; i < begins_max && !heads.empty(); ++i) {
    const double begin = heads[i * heads.size() / begins_max];
    if (begin > begins_.back()) begins_.push_back(begin);
  }
  for (const LoopTask& task : graph.tasks) {
    const auto after = std::ranges::upper_bound(begins_, task.head_s);
    last_.push_back(static_cast<std::uint32_t>(after - begins_.begin()) - 1);
  }
  for (const double begin : begins_) outside_.insert(outside_.end(), links_ + places_, begin);
  for (std::size_t device = 0; device < devices_; ++device) {
    double head = unreachable, tail = unreachable;
    for (const LoopTask& task : graph.tasks) {
      if (task.device != device || task.accesses == 0) continue;
      head = std::min(head, task.head_s);
      tail = std::min(tail, task.tail_s);
    }
    outside_.insert(outside_.end(), links_, head == unreachable ? 0 : head + tail);
  }
}

LoopLoads::LoopLoads(const LoopGraph& graph, const LoopWindows& windows)
    : accesses(graph.access_tasks.size()),
      task_parts(graph.tasks.size() * windows.parts()),
      moved(windows.begins() * windows.places() * windows.places()),
      lay(windows.begins() * windows.places()),
      lies_at(graph.tasks.size()),
      lies_after(graph.tasks.size()),
      lies_until(graph.tasks.size()) {}

void LoopLoads::clear() {
  for (auto* const sums :
       {&accesses, &task_parts, &moved, &lay, &lies_at, &lies_after, &lies_until})
    std::ranges::fill(*sums, 0.0);
}

void LoopLoads::mix(const LoopLoads& other, double share) {
  mix_into(accesses, other.accesses, share);
  mix_into(task_parts, other.task_parts, share);
  mix_into(moved, other.moved, share);
  mix_into(lay, other.lay, share);
  mix_into(lies_at, other.lies_at, share);
  mix_into(lies_after, other.lies_after, share);
  mix_into(lies_until, other.lies_until, share);
}

LoopPrices::LoopPrices(const LoopGraph& graph, const ReplayMachine& machine,
                       const LoopWindows& windows)
    : graph_(graph),
      machine_(machine),
      windows_(windows),
      tables_(windows.begins()),
      reads_(windows.devices() * windows.begins() * windows.places()),
      writes_(reads_.size()),
      weighted_(graph.tasks.size()),
      room_before_(graph.tasks.size()) {}

void LoopPrices::set(const LoopWeights& weights) {
  weights_ = &weights;
  const std::size_t links = windows_.links(), places = windows_.places();
  std::vector<double> prices(links, 0), rooms(places, 0);
  for (std::size_t begin = 0; begin < windows_.begins(); ++begin) {
    for (std::size_t link = 0; link < links; ++link) {
      const double capacity = machine_.links.capacity(static_cast<LinkId>(link));
      if (capacity > 0) prices[link] += weights.pairs[windows_.link_at(begin, link)] / capacity;
    }
    Table& table = tables_[begin];
    fill(table, prices);
    for (std::size_t place = 0; place < places; ++place) {
      const auto capacity = static_cast<double>(machine_.places[place].capacity_bytes);
      const double weight = weights.pairs[windows_.room_at(begin, place)];
      if (capacity > 0) rooms[place] += weight / capacity;
    }
    table.lies = rooms;
    for (std::size_t device = 0; device < windows_.devices(); ++device) {
      std::vector<double> own = prices;
      for (std::size_t link = 0; link < links; ++link) {
        const double capacity = machine_.links.capacity(static_cast<LinkId>(link));
        const double weight = weights.pairs[windows_.device_link_at(device, link)];
        if (capacity > 0) own[link] += weight / capacity;
      }
      price_accesses(own, device * windows_.begins() + begin);
    }
  }
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    const auto own =
        std::span(weights.task_parts).subspan(task * windows_.parts(), windows_.parts());
    weighted_[task] = std::ranges::any_of(own, [](double weight) { return weight > 0; });
  }
  std::vector<double> sums(graph_.chains, 0);
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    double& sum = sums[graph_.tasks[task].chain];
    room_before_[task] = sum;
    sum += weights.room[task];
  }
}

/// Floyd's algorithm for the cheapest routes.
void LoopPrices::fill(Table& table, std::span<const double> link_prices) {
  const std::size_t places = windows_.places();
  table.moves.assign(places * places, unreachable);
  table.next.resize(places * places);
  for (std::size_t from = 0; from < places; ++from) {
    for (std::size_t to = 0; to < places; ++to) {
      table.next[from * places + to] = static_cast<std::uint8_t>(to);
      double& cost = table.moves[from * places + to];
      if (from == to) {
        cost = 0;
        continue;
      }
      const LinkPath& path = machine_.links.copy(place_id(from), place_id(to));
      if (path.rate_max <= 0) continue;
      cost = 0;
      for (const LinkId link : path.links()) cost += link_prices[link];
    }
  }
  for (std::size_t by = 0; by < places; ++by) {
    for (std::size_t from = 0; from < places; ++from) {
      for (std::size_t to = 0; to < places; ++to) {
        const double cost = table.moves[from * places + by] + table.moves[by * places + to];
        if (cost >= table.moves[from * places + to]) continue;
        table.moves[from * places + to] = cost;
        table.next[from * places + to] = table.next[from * places + by];
      }
    }
  }
  table.cheapest = unreachable;
  table.round_trips.assign(places, unreachable);
  for (std::size_t from = 0; from < places; ++from) {
    for (std::size_t to = 0; to < places; ++to) {
      if (from == to) continue;
      const double there = table.moves[from * places + to];
      table.cheapest = std::min(table.cheapest, there);
      table.round_trips[from] =
          std::min(table.round_trips[from], there + table.moves[to * places + from]);
    }
  }
}

void LoopPrices::price_accesses(std::span<const double> link_prices, std::size_t kind) {
  const PlaceId device = place_id(kind / windows_.begins());
  for (std::size_t place = 0; place < windows_.places(); ++place) {
    double& read = reads_[kind * windows_.places() + place];
    double& write = writes_[kind * windows_.places() + place];
    read = write = 0;
    for (const LinkId link : machine_.links.read(device, place_id(place)).links())
      read += link_prices[link];
    for (const LinkId link : machine_.links.write(device, place_id(place)).links())
      write += link_prices[link];
  }
}

double LoopPrices::use_seconds(const LoopUse& use, std::size_t place) const {
  const PlaceId device = place_id(graph_.tasks[use.task].device);
  const double rate = machine_.links.read(device, place_id(place)).rate_max;
  return rate > 0 ? std::max(use.work_s, (use.read_bytes + use.written_bytes) / rate) : unreachable;
}

double LoopPrices::use(const LoopUse& use, std::size_t place) const {
  const double seconds = use_seconds(use, place);
  if (seconds == unreachable) return unreachable;
  const LoopTask& task = graph_.tasks[use.task];
  const std::size_t kind =
      (task.device * windows_.begins() + windows_.last_of(use.task)) * windows_.places() + place;
  double price = weights_->accesses[use.access] * seconds + use.read_bytes * reads_[kind] +
                 use.written_bytes * writes_[kind];
  if (!weighted_[use.task]) return price;
  const PlaceId device = place_id(task.device);
  const double* const own = &weights_->task_parts[use.task * windows_.parts()];
  for (const LinkId link : machine_.links.read(device, place_id(place)).links())
    price += own[link] * use.read_bytes / machine_.links.capacity(link);
  for (const LinkId link : machine_.links.write(device, place_id(place)).links())
    price += own[link] * use.written_bytes / machine_.links.capacity(link);
  return price;
}

void LoopPrices::add_use(const LoopUse& use, std::size_t place, double share,
                         LoopLoads& loads) const {
  const PlaceId device = place_id(graph_.tasks[use.task].device);
  loads.accesses[use.access] += share * use_seconds(use, place);
  double* const own = &loads.task_parts[use.task * windows_.parts()];
  for (const LinkId link : machine_.links.read(device, place_id(place)).links())
    own[link] += share * use.read_bytes / machine_.links.capacity(link);
  for (const LinkId link : machine_.links.write(device, place_id(place)).links())
    own[link] += share * use.written_bytes / machine_.links.capacity(link);
}

double LoopPrices::lie_during(std::uint32_t task, std::size_t place) const {
  const auto capacity = static_cast<double>(machine_.places[place].capacity_bytes);
  const double own = weights_->task_parts[task * windows_.parts() + windows_.links() + place];
  return lie(windows_.last_of(task), place) + own / capacity;
}

void LoopPrices::add_lie_during(std::uint32_t task, std::size_t place, double byte_s,
                                LoopLoads& loads) const {
  const auto capacity = static_cast<double>(machine_.places[place].capacity_bytes);
  loads.lay[windows_.last_of(task) * windows_.places() + place] += byte_s;
  loads.task_parts[task * windows_.parts() + windows_.links() + place] += byte_s / capacity;
}

void LoopPrices::add_move(std::size_t stretch, std::size_t from, std::size_t to, double bytes,
                          LoopLoads& loads) const {
  const std::size_t places = windows_.places();
  while (from != to) {
    const std::size_t next = tables_[stretch].next[from * places + to];
    loads.moved[(stretch * places + from) * places + next] += bytes;
    from = next;
  }
}

std::vector<double> LoopPrices::times(const LoopLoads& loads) const {
  const std::size_t links = windows_.links(), places = windows_.places();
  std::vector<double> times(windows_.size(), 0);
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    for (std::size_t link = 0; link < links; ++link) {
      const double seconds = loads.task_parts[task * windows_.parts() + link];
      times[windows_.link_at(windows_.last_of(task), link)] += seconds;
      times[windows_.device_link_at(graph_.tasks[task].device, link)] += seconds;
    }
  }
  for (std::size_t begin = 0; begin < windows_.begins(); ++begin) {
    for (std::size_t from = 0; from < places; ++from) {
      for (std::size_t to = 0; to < places; ++to) {
        const double bytes = loads.moved[(begin * places + from) * places + to];
        if (bytes <= 0) continue;
        for (const LinkId link : machine_.links.copy(place_id(from), place_id(to)).links())
          times[windows_.link_at(begin, link)] += bytes / machine_.links.capacity(link);
      }
      const auto capacity = static_cast<double>(machine_.places[from].capacity_bytes);
      if (capacity > 0)
        times[windows_.room_at(begin, from)] += loads.lay[begin * places + from] / capacity;
    }
  }
  // A stretch holds the tasks of all later ones.
  for (std::size_t begin = windows_.begins() - 1; begin-- > 0;)
    for (std::size_t i = 0; i < links + places; ++i)
      times[windows_.link_at(begin, i)] += times[windows_.link_at(begin + 1, i)];
  for (std::size_t pair = 0; pair < times.size(); ++pair) times[pair] += windows_.outside_s(pair);
  return times;
}

}  // namespace vma
