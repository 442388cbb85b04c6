#include "pools/segments.hpp"

#include "base/log.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "memory/geometry.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

namespace vma {
namespace {

// How far a pool grows ahead of what it needs: an eighth of what it has, and no more than this.
constexpr std::uint64_t growth_bytes_max = 32 * MiB;

}  // namespace

// --- SegmentTable

SegmentTable::~SegmentTable() {
  for (const auto& block : blocks_) delete[] block.load();
}

void SegmentTable::enter(Segment& segment) {
  const auto number = static_cast<std::uint32_t>(registry_.find(segment.begin)->id);
  std::atomic<Cell*>& block = blocks_.at(number / cells_of_block);
  if (block.load() == nullptr) {
    auto made = std::make_unique<Cell[]>(cells_of_block);
    Cell* none = nullptr;
    if (block.compare_exchange_strong(none, made.get())) static_cast<void>(made.release());
  }
  block.load()[number % cells_of_block].store(&segment, std::memory_order_release);
}

void SegmentTable::remove(const Segment& segment) noexcept {
  const auto number = static_cast<std::uint32_t>(registry_.find(segment.begin)->id);
  blocks_[number / cells_of_block].load()[number % cells_of_block] = nullptr;
}

Segment* SegmentTable::find(Address address) const noexcept {
  const std::optional<Registry::Found> found = registry_.find(address);
  if (!found) return nullptr;
  const auto number = static_cast<std::uint32_t>(found->id);
  if (number / cells_of_block >= blocks_.size()) return nullptr;
  const Cell* const block = blocks_[number / cells_of_block].load(std::memory_order_acquire);
  if (block == nullptr) return nullptr;
  return block[number % cells_of_block].load(std::memory_order_acquire);
}

Block* SegmentTable::block_at(Address address) const noexcept {
  const Segment* const segment = find(address);
  if (segment == nullptr) return nullptr;
  if ((address - segment->begin) % SizeClasses::step_bytes != 0) return nullptr;
  return segment->start(address).load(std::memory_order_acquire);
}

// --- Segments

Segments::Segments(Memory& memory, SegmentTable& table, BlockPool& pool)
    : memory_(memory), table_(table), pool_(pool) {}

bool Segments::claim(std::uint64_t size_bytes, std::uint64_t max_bytes) noexcept {
  std::uint64_t before = reserved_.load();
  do {
    if (max_bytes != 0 && (before >= max_bytes || size_bytes > max_bytes - before)) return false;
  } while (!reserved_.compare_exchange_weak(before, before + size_bytes));
  raise(reserved_high_, before + size_bytes);
  return true;
}

std::list<Segment> Segments::make(std::uint64_t need_bytes, Place at, const PoolOptions& options) {
  constexpr const char* call = "vma::Pool::allocate";
  const auto planned = [&](std::uint64_t bytes) {
    return plan_geometry(bytes, options.chunk_bytes, at, memory_.topology().granularity())
        .size_bytes();
  };
  const std::uint64_t least = planned(need_bytes);
  std::uint64_t bytes =
      planned(std::max(need_bytes, std::min(reserved_bytes() / 8, growth_bytes_max)));
  if (!claim(bytes, options.max_bytes) && !claim(bytes = least, options.max_bytes)) {
    throw Error(ErrorKind::out_of_memory, call,
                fmt::format("{} more than the {} that the pool has exceed its max_bytes of {}",
                            bytes_text(least), bytes_text(reserved_bytes()),
                            bytes_text(options.max_bytes)));
  }
  AllocOptions asked;
  asked.chunk_bytes = options.chunk_bytes;
  asked.tag = options.tag;
  asked.exportable = options.exportable;
  std::shared_ptr<Allocation> allocation;
  try {
    if (bytes > least) {
      try {
        allocation = memory_.alloc(bytes, at, asked);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::out_of_memory) throw;
        reserved_ -= bytes - least;  // No room to grow ahead.
        bytes = least;
      }
    }
    if (!allocation) allocation = memory_.alloc(bytes, at, asked);
  } catch (...) {
    reserved_ -= bytes;
    throw;
  }
  try {
    std::list<Segment> made(1);
    Segment& segment = made.front();
    segment.pool = &pool_;
    segment.begin = allocation->begin();
    segment.size_bytes = bytes;
    segment.starts.reset(static_cast<std::atomic<Block*>*>(
        std::calloc(bytes / SizeClasses::step_bytes, sizeof(std::atomic<Block*>))));
    if (!segment.starts) throw std::bad_alloc();
    table_.enter(segment);
    return made;
  } catch (...) {
    memory_.free_idle(allocation->begin());
    reserved_ -= bytes;
    throw;
  }
}

bool Segments::keep_for(std::function<bool(Address)> keeps) {
  const MutexLock lock(keeping_);
  if (keeps && keeps_) return false;
  keeps_ = std::move(keeps);
  return true;
}

bool Segments::is_kept(const Segment& segment) const {
  std::function<bool(Address)> keeps;
  {
    const MutexLock lock(keeping_);
    keeps = keeps_;
  }
  return keeps && keeps(segment.begin);
}

bool Segments::give_back(Segment& segment, IfItMoves if_it_moves) noexcept {
  try {
    if (is_kept(segment)) return false;
  } catch (const std::exception&) {  // No memory to ask.
    return false;
  }
  table_.remove(segment);
  try {
    if (if_it_moves == IfItMoves::waits) {
      memory_.free_unused(segment.begin);
    } else {
      memory_.free_idle(segment.begin);
    }
  } catch (const std::exception& error) {
    log(LogLevel::debug, "a pool keeps an empty segment: {}", error.what());
    table_.enter(segment);  // Needs no memory: its cell exists.
    return false;
  }
  reserved_ -= segment.size_bytes;
  return true;
}

bool Segments::is_at(const Segment& segment, Place at) const {
  const auto extents = memory_.require(to_pointer(segment.begin), "vma::trim")->extents();
  return std::ranges::any_of(extents,
                             [&](const Extent& each) { return each.at == at && !each.dropped; });
}

void Segments::erase(const Segment& segment) noexcept {
  all_.remove_if([&](const Segment& each) { return &each == &segment; });
}

}  // namespace vma
