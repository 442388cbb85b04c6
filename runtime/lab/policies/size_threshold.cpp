#include "lab/policies/lab_policies.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"

#include <algorithm>
#include <tuple>

namespace vma::inline v1 {
namespace {

constexpr std::uint8_t unknown = 0, compute = 1, cache = 2;

std::string mib_text(std::uint64_t bytes) {
  return std::to_string(bytes / MiB) + " MiB";
}

/// `size_threshold`: compute data of a GPU belongs in HBM, caches belong in host memory, and the
/// size of the allocation tells them apart.
///
/// Source: `managed_alloc.cu`, an allocator of managed memory for PyTorch on GH200. It fetches an
/// allocation to the GPU that asks if `0 < size < 2 GiB` ("model weights", which "MUST be on GPU")
/// and leaves one of 2 GiB or more ("KV cache blocks") outside HBM, where the GPU can still reach
/// it, since fetching those "fills HBM and causes subsequent allocations to fail". How it is read:
/// - The size is that of the whole allocation, however many chunks it has; exactly `limit` is a
///   cache. Nothing else counts: no tag, no hint, no sum over allocations.
/// - Below: HBM of the device that asks. If that is full, spill in order of speed; the source
///   continues if its fetch fails ("pages will still be migrated on demand"). So with `on_demand`,
///   a chunk of such an allocation that a GPU uses while it is in host memory moves to that GPU's
///   HBM as soon as there is room. A peer's HBM is HBM: nothing moves between GPUs.
/// - From `limit` on: the host node that the device reaches fastest, then the others. If no host
///   has room, spill in order of speed, since failing is worse. It is not fetched when used: the
///   source lets the GPU read it over the link, and says that attention tolerates that.
/// - Under pressure on a GPU, cache data there goes back to a host, the longest unused first.
///   Compute data is not offered.
class SizeThreshold final : public Policy {
 public:
  explicit SizeThreshold(const PolicyValues& values)
      : limit_(values.count("limit")), on_demand_(values.flag("on_demand")) {}

  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override;
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override;
  void on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) override;
  void on_gone(ChunkId chunk) override {
    if (index(chunk) < kinds_.size()) kinds_[index(chunk)] = unknown;
  }

 private:
  std::uint8_t kind_of(const Snapshot& snapshot, ChunkId chunk);
  std::vector<PlaceId> hosts_of(const Snapshot& snapshot, PlaceId device) const;

  const std::uint64_t limit_;
  const bool on_demand_;
  ProposalsOfNow proposals_;
  std::vector<std::uint8_t> kinds_;  // Of allocations, by their first chunk.
};

/// Fastest first.
std::vector<PlaceId> SizeThreshold::hosts_of(const Snapshot& snapshot, PlaceId device) const {
  std::vector<PlaceId> hosts;
  for (const PlaceId at : snapshot.costs().by_speed(device)) {
    if (index(at) >= snapshot.costs().gpus()) hosts.push_back(at);
  }
  return hosts;
}

void SizeThreshold::on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                             std::span<PlaceId> chunks) {
  RoomForChunks room(snapshot);
  const std::span<const PlaceId> by_speed = snapshot.costs().by_speed(request.device);
  std::vector<PlaceId> order;
  if (request.bytes >= limit_) order = hosts_of(snapshot, request.device);
  order.insert(order.end(), by_speed.begin(), by_speed.end());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (const auto at = room.take_first(order, chunk_bytes_of(request, i))) chunks[i] = *at;
  }
}

/// Sums up the allocation once; its size never changes.
std::uint8_t SizeThreshold::kind_of(const Snapshot& snapshot, ChunkId chunk) {
  const std::size_t first = index(snapshot.first_of(chunk));
  if (first >= kinds_.size()) kinds_.resize(snapshot.chunks().size());
  if (kinds_[first] != unknown) return kinds_[first];
  const std::span<const ChunkRow> rows = snapshot.chunks();
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  for (std::size_t i = first; i < rows.size() && bytes < limit_; ++i, ++slot) {
    if (rows[i].bytes == 0 || rows[i].slot != slot) break;  // The next allocation, or none.
    bytes += rows[i].bytes;
  }
  return kinds_[first] = bytes < limit_ ? compute : cache;
}

void SizeThreshold::on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) {
  const ChunkRow& row = snapshot.chunk(use.chunk);
  if (!on_demand_ || use.hint != nullptr || index(row.at) < snapshot.costs().gpus()) return;
  proposals_.look(snapshot.now());
  if (!may_move(row) || proposals_.has(use.chunk)) return;
  if (!RoomForChunks(snapshot, proposals_).fits(use.device, row.bytes)) return;
  if (kind_of(snapshot, use.chunk) != compute || !can_lie(snapshot, use.chunk, use.device)) return;
  proposals_.add(use.chunk, use.device, row.bytes);
  plan.move(use.chunk, use.device, expected_saving(snapshot, use.chunk, use.device),
            name_of(snapshot, use.device) + " uses it, and it is of an allocation of less than " +
                mib_text(limit_));
}

/// Examines every chunk: pressure is rare, and the moves that follow take far longer.
void SizeThreshold::on_pressure(const Pressure& pressure, const Snapshot& snapshot, Plan& plan) {
  if (index(pressure.at) >= snapshot.costs().gpus()) return;
  std::vector<std::tuple<Time, std::uint32_t>> victims;
  const std::span<const ChunkRow> rows = snapshot.chunks();
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].at != pressure.at || !may_move(rows[i])) continue;
    if (kind_of(snapshot, ChunkId{i}) == cache) {
      victims.emplace_back(std::max(rows[i].born, rows[i].last_use), i);
    }
  }
  std::ranges::sort(victims);
  RoomForChunks room(snapshot);
  const std::vector<PlaceId> hosts = hosts_of(snapshot, pressure.at);
  std::uint64_t freed = 0;
  for (const auto& [used, number] : victims) {
    if (freed >= pressure.bytes) return;
    const std::uint64_t bytes = rows[number].bytes;
    for (const PlaceId to : hosts) {
      if (!room.fits(to, bytes) || !can_lie(snapshot, ChunkId{number}, to)) continue;
      room.take(to, bytes);
      freed += bytes;
      plan.evict(ChunkId{number}, to,
                 "of an allocation of at least " + mib_text(limit_) + ", idle " +
                     time_text(in_seconds(snapshot.now() - used)));
      break;
    }
  }
}

}  // namespace

PolicyKind size_threshold_kind() {
  using enum PolicyParameter::Type;
  return {
      "size_threshold",
      "managed_alloc.cu, an allocator for PyTorch on GH200: compute data below 2 GiB in HBM",
      {{"limit", size, 2.0 * static_cast<double>(GiB), 0, 1024.0 * static_cast<double>(GiB),
        "allocations of at least this size are caches and lie in host memory"},
       {"on_demand", flag, 1, 0, 1, "compute data that spilled to host memory returns when used"}},
      [](const PolicyValues& values) {
        return std::unique_ptr<Policy>(std::make_unique<SizeThreshold>(values));
      }};
}

}  // namespace vma::inline v1
