#include "lab/policies/lab_policies.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

namespace vma::inline v1 {
namespace {

constexpr int bins = 16;
constexpr int unused = -1;            // The bin of chunks without a count.
constexpr double units_a_pass = 16;   // Bin 0 is below an eighth of a pass.
constexpr double units_most = 65535;  // The last bin is open-ended; halving must bring it down.

/// Rule: each chunk has a count of the passes over it, which is halved every `cooling`. For each
/// GPU a histogram has the bytes of the chunks that it uses most, in 16 bins by the logarithm of
/// the count. From the hottest bin down, as many bins as fit the GPU's HBM minus `reserve` are hot;
/// the threshold follows from the capacity, so nothing has to be tuned. Hot chunks are brought in;
/// cold ones, the coldest first, are evicted when hot ones need room, or when less than `low` is
/// free. While the hot ones fill less than `warm_below` of the HBM, the bin below the threshold is
/// warm: it stays in HBM, so that chunks near the threshold do not move to and fro. Chunks of that
/// bin at other places may fill free room, but nothing is evicted for them. The cost of a move is
/// not considered.
///
/// A count is read as of the last cooling: divided by 1 + the share of the period that has passed
/// since, so that steady use gives a steady bin. All chunks are examined once every `period`.
///
/// From: T. Lee et al., "MEMTIS: Efficient Memory Tiering with Dynamic Page Classification and Page
/// Size Determination", SOSP 2023. It has one histogram, for one fast tier.
class HistogramFill : public Policy {
 public:
  explicit HistogramFill(const PolicyValues& values)
      : cooling_(values.duration("cooling")),
        period_(values.duration("period")),
        reserve_(values["reserve"]),
        low_(values["low"]),
        warm_below_(values["warm_below"]) {}

  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_tick(const Snapshot& snapshot, Plan& plan) override;
  void on_gone(ChunkId chunk) override {
    if (index(chunk) < counts_.size()) counts_[index(chunk)] = {};
  }

 private:
  struct Count {
    float units = 0;  // At `coolings`.
    std::uint32_t coolings = 0;
  };
  struct Binned {
    ChunkId chunk{};
    int bin = unused;
    Time last_use{0};
  };
  struct Gpu {
    std::array<double, bins> bytes{};
    int hot = bins, warm = bins;  // Index of the first such bin.
    std::vector<Binned> wanted;   // Used most by this GPU, and elsewhere.
    std::vector<Binned> here;     // In its HBM.
    std::size_t put_out = 0;      // Of `here`.
  };
  void cool(Time now);
  int bin_of(ChunkId chunk, Time now) const;
  void fill(const Snapshot& snapshot);
  void set_thresholds(Gpu& gpu, std::uint64_t capacity) const;
  bool make_room(const Snapshot& snapshot, PlaceId place, double free_wanted, Room& room,
                 Plan& plan);
  void bring_in(const Snapshot& snapshot, PlaceId place, Room& room, Plan& plan);

  const Time cooling_, period_;
  const double reserve_, low_, warm_below_;
  std::vector<Count> counts_;  // By chunk.
  std::vector<Gpu> gpus_;      // Of the current look, as is the next.
  std::set<ChunkId> planned_;  // One GPU may want a chunk that another evicts.
  Time cooled_{0}, looked_{0};
  std::uint32_t coolings_ = 0;
};

void HistogramFill::cool(Time now) {
  if (cooled_ == Time::zero()) cooled_ = now;
  const auto times = (now - cooled_) / cooling_;
  coolings_ += static_cast<std::uint32_t>(times);
  cooled_ += times * cooling_;
}

void HistogramFill::on_use(const UseEvent& use, const Snapshot& snapshot, Plan&) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  if (use.hint != nullptr || row.bytes == 0) return;
  cool(snapshot.now());
  if (index(use.chunk) >= counts_.size()) counts_.resize(snapshot.chunks().size());
  Count& count = counts_[index(use.chunk)];
  const double before =
      std::ldexp(count.units, -static_cast<int>(std::min(coolings_ - count.coolings, 64u)));
  const double more = units_a_pass * use.bytes() / static_cast<double>(row.bytes);
  count = {static_cast<float>(std::min(before + more, units_most)), coolings_};
}

int HistogramFill::bin_of(ChunkId chunk, Time now) const {
  if (index(chunk) >= counts_.size() || counts_[index(chunk)].units <= 0) return unused;
  const Count& count = counts_[index(chunk)];
  const double since = in_seconds(now - cooled_) / in_seconds(cooling_);
  const double units =
      std::ldexp(count.units, -static_cast<int>(std::min(coolings_ - count.coolings, 64u))) /
      (1 + since);
  return units < 1 ? 0 : std::min(bins - 1, static_cast<int>(std::log2(units)));
}

/// From the hottest bin down, as long as it fits.
void HistogramFill::set_thresholds(Gpu& gpu, std::uint64_t capacity) const {
  const double room = static_cast<double>(capacity) * (1 - reserve_);
  double hot = 0;
  while (gpu.hot > 0 && hot + gpu.bytes[static_cast<std::size_t>(gpu.hot - 1)] <= room) {
    hot += gpu.bytes[static_cast<std::size_t>(--gpu.hot)];
  }
  gpu.warm = hot < warm_below_ * static_cast<double>(capacity) ? std::max(0, gpu.hot - 1) : gpu.hot;
}

/// Fills the histograms and the lists of chunks.
void HistogramFill::fill(const Snapshot& snapshot) {
  gpus_.assign(snapshot.costs().gpus(), Gpu{});
  for (std::size_t i = 0; i < snapshot.chunks().size(); ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(i)};
    const ChunkRow& row = snapshot.chunk(chunk);
    if (row.bytes == 0) continue;
    const Binned binned{chunk, bin_of(chunk, snapshot.now()), row.last_use};
    if (index(row.at) < gpus_.size() && may_move(row)) gpus_[index(row.at)].here.push_back(binned);
    const std::optional<MainUser> user =
        binned.bin == unused ? std::nullopt : main_user(snapshot, chunk);
    if (!user) continue;
    Gpu& gpu = gpus_[index(user->device)];
    gpu.bytes[static_cast<std::size_t>(binned.bin)] += static_cast<double>(row.bytes);
    if (row.at != user->device && may_move(row) && can_lie(snapshot, chunk, user->device))
      gpu.wanted.push_back(binned);
  }
  const auto colder = [](const Binned& left, const Binned& right) {
    return std::tie(left.bin, left.last_use, left.chunk) <
           std::tie(right.bin, right.last_use, right.chunk);
  };
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    set_thresholds(gpus_[i], snapshot.places()[i].capacity_bytes);
    std::ranges::sort(gpus_[i].here, colder);
    std::ranges::sort(gpus_[i].wanted,
                      [&](const Binned& left, const Binned& right) { return colder(right, left); });
  }
}

/// Evicts cold chunks until `free_wanted` is free; if it fails, evictions made so far stay in the
/// plan. Returns whether it succeeded.
bool HistogramFill::make_room(const Snapshot& snapshot, PlaceId place, double free_wanted,
                              Room& room, Plan& plan) {
  Gpu& gpu = gpus_[index(place)];
  const auto is_free = [&] { return static_cast<double>(room.at(place)) >= free_wanted; };
  for (; !is_free() && gpu.put_out < gpu.here.size(); ++gpu.put_out) {
    const Binned& cold = gpu.here[gpu.put_out];
    if (cold.bin >= gpu.warm) break;
    if (planned_.contains(cold.chunk)) continue;
    // A peer filled this way would evict something in turn, and so on for ever.
    const std::optional<PlaceId> to = next_place(snapshot, cold.chunk, room, reserve_);
    if (!to) continue;
    room.move(place, *to, snapshot.chunk(cold.chunk).bytes);
    planned_.insert(cold.chunk);
    plan.evict(cold.chunk, *to,
               (cold.bin == unused ? "unused" : "in bin " + std::to_string(cold.bin)) + " at " +
                   name_of(snapshot, place) + ", where bins from " + std::to_string(gpu.warm) +
                   " on are kept");
  }
  return is_free();
}

void HistogramFill::bring_in(const Snapshot& snapshot, PlaceId place, Room& room, Plan& plan) {
  Gpu& gpu = gpus_[index(place)];
  const double kept = reserve_ * static_cast<double>(snapshot.place(place).capacity_bytes);
  for (const Binned& hot : gpu.wanted) {
    if (hot.bin < gpu.hot - 1) return;
    if (planned_.contains(hot.chunk)) continue;
    const ChunkRow& row = snapshot.chunk(hot.chunk);
    const double wanted = kept + static_cast<double>(row.bytes);
    // No room is made for chunks of the bin below the threshold; they may fill what is free.
    if (hot.bin >= gpu.hot ? !make_room(snapshot, place, wanted, room, plan)
                           : static_cast<double>(room.at(place)) < wanted)
      return;
    const double rate = snapshot.heat(hot.chunk, place).short_term();
    const double period = in_seconds(cooling_);
    const double saved =
        std::min(1e6, saved_seconds(snapshot.costs(), place, row.at, place, rate * period));
    room.move(row.at, place, row.bytes);
    planned_.insert(hot.chunk);
    // MEMTIS moves hot chunks whatever the cost; a loss counts as value 0.
    const double cost = move_seconds(snapshot.costs(), row.at, place, row.bytes, 0);
    plan.move(hot.chunk, place, std::max(0.0, saved - cost),
              "in bin " + std::to_string(hot.bin) + " of " + name_of(snapshot, place) +
                  (hot.bin >= gpu.hot ? ", which fits those from " + std::to_string(gpu.hot) + " on"
                                      : ", some of which fit in addition to the hot ones") +
                  "; asked for " + rate_text(rate));
  }
}

void HistogramFill::on_tick(const Snapshot& snapshot, Plan& plan) {
  cool(snapshot.now());
  if (snapshot.now() - looked_ < period_) return;
  looked_ = snapshot.now();
  fill(snapshot);
  planned_.clear();
  Room room(snapshot);
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const PlaceId place{static_cast<std::uint8_t>(i)};
    const auto capacity = static_cast<double>(snapshot.place(place).capacity_bytes);
    bring_in(snapshot, place, room, plan);
    if (static_cast<double>(room.at(place)) < low_ * capacity)
      make_room(snapshot, place, reserve_ * capacity, room, plan);
  }
}

}  // namespace

PolicyKind histogram_fill_kind() {
  using Type = PolicyParameter::Type;
  return {"histogram_fill",
          "MEMTIS, SOSP 2023",
          {{"cooling", Type::duration, 4, 0.01, 3600, "interval after which counts are halved"},
           {"period", Type::duration, 0.5, 0, 3600, "interval between passes over all chunks"},
           {"reserve", Type::number, 0.03, 0, 0.9, "fraction of a GPU's HBM that stays unfilled"},
           {"low", Type::number, 0.02, 0, 0.9, "below this free fraction, cold chunks are evicted"},
           {"warm_below", Type::number, 0.75, 0, 1,
            "while hot chunks fill less than this fraction, the next bin stays"}},
          [](const PolicyValues& values) -> std::unique_ptr<Policy> {
            return std::make_unique<HistogramFill>(values);
          }};
}

}  // namespace vma::inline v1
