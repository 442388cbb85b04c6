#include "bench/live/moved_range.hpp"

#include "bench/harness/samples.hpp"
#include "support/test_kernels.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>

namespace vma {
namespace {

constexpr std::uint64_t writer_tile_bytes = std::uint64_t{256} << 10;
constexpr std::uint64_t pattern_seed = 0x5EED0000000000ull;
constexpr Dim3 grid{1024};
constexpr Dim3 block{256};

std::uint64_t tiles_of(std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, bytes / writer_tile_bytes);
}

}  // namespace

DirtyTiles DirtyTiles::share_of(double share, std::uint64_t bytes) {
  const auto all = static_cast<double>(tiles_of(bytes));
  const auto tiles = static_cast<std::uint64_t>(all * share + 0.5);
  if (share > 0 && tiles == 0) return {1, 1};
  return {std::max<std::uint64_t>(1, tiles), tiles};
}

MovedRange::MovedRange(Runtime& runtime, Place home, std::uint64_t bytes, std::uint64_t chunk_bytes)
    : runtime_(runtime),
      bytes_(bytes),
      chunk_bytes_(std::min(chunk_bytes, bytes)),
      home_(home),
      pointer_(nullptr) {
  AllocOptions options;
  options.chunk_bytes = chunk_bytes_;
  options.tag = "live_bench";
  pointer_ = runtime.alloc(bytes, home, options);
  const Stream stream = runtime.make_stream(runtime.places().front());
  runtime.launch(stream, fill_kernel(), grid, block,
                 KernelArguments::of(pointer_, bytes_ / sizeof(std::uint64_t), pattern_seed));
  runtime.synchronize(stream);
  runtime.destroy_stream(stream);
  first_sum_ = sum();
}

MovedRange::~MovedRange() {
  try {
    runtime_.free(pointer_);
  } catch (const std::exception&) {  // The benchmark has already failed and reported why.
  }
}

WritePlaces MovedRange::places(const DirtyTiles& dirty) const {
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  const std::uint64_t tiles = std::min(dirty.tiles, tiles_of(bytes_));
  WritePlaces places;
  places.begin = static_cast<std::uint64_t*>(pointer_);
  places.places = tiles;
  places.stride_words = tiles_of(bytes_) / tiles * writer_tile_bytes / word_bytes;
  places.place_words = std::min(writer_tile_bytes, bytes_) / word_bytes;
  places.touches = dirty.touches;
  return places;
}

void MovedRange::reserve(Place to) {
  runtime_.reserve(to, bytes_, chunk_bytes_);
}

Migration MovedRange::start(Place to, const MigrateOptions& options) {
  hang_alarm_.feed();
  return runtime_.migrate_async(pointer_, to, options);
}

bool MovedRange::finish(const Migration& migration, Place to, MoveTally& tally) {
  try {
    tally.add(migration.wait());
    hang_alarm_.feed();
    home_ = to;
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::busy) throw;
    hang_alarm_.feed();
    tally.add_busy(migration.report());
    return false;
  }
}

std::uint64_t MovedRange::sum() {
  AllocOptions options;
  options.movable = false;
  const Place gpu = runtime_.places().front();
  void* const out = runtime_.alloc(sizeof(std::uint64_t), gpu, options);
  std::uint64_t sum = 0;
  runtime_.write(out, std::as_bytes(std::span(&sum, 1)));
  const Stream stream = runtime_.make_stream(gpu);
  runtime_.launch(stream, sum_kernel(), grid, block,
                  KernelArguments::of(pointer_, bytes_ / sizeof(std::uint64_t), out));
  runtime_.synchronize(stream);
  runtime_.destroy_stream(stream);
  runtime_.read(out, std::as_writable_bytes(std::span(&sum, 1)));
  runtime_.free(out);
  return sum;
}

void MovedRange::check(std::uint64_t added) {
  hang_alarm_.feed();
  const std::uint64_t found = sum() - first_sum_;
  if (found != added) {
    throw std::runtime_error("the words do not hold what was written and added to them");
  }
}

MoveTally move_to_and_fro(MovedRange& range, Place one, Place other, const MigrateOptions& options,
                          int moves_max, double seconds, std::chrono::milliseconds rest) {
  MoveTally tally;
  const Stopwatch watch;
  const auto limit = std::chrono::duration<double>(seconds);
  while (tally.tried() < 2 || (tally.tried() < moves_max && watch.elapsed() < limit)) {
    spin_for(rest);
    range.move(range.place() == one ? other : one, options, tally);
  }
  return tally;
}

}  // namespace vma
