#include <vma/error.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"
#include "memory/move_claim.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

namespace vma {
namespace {

/// Without a driver call, since the driver does not know a destroyed stream.
BoundStream named(Stream stream) {
  return {{}, StreamHandle{reinterpret_cast<std::uint64_t>(stream)}};
}

struct ByteRange {
  std::size_t offset = 0, bytes = 0;
};

/// Of the whole allocation where no part of it is named.
SlotRange slots_of(const Allocation& allocation, const std::optional<ByteRange>& part,
                   const char* call) {
  if (!part) return {0, allocation.geometry().slots};
  return slots_of(allocation, part->offset, part->bytes, call);
}

/// What a call names: an allocation, or a part of it.
struct Named {
  void* pointer = nullptr;
  std::optional<ByteRange> part;
};

/// A block of a pool is a part of its segment.
Named named_by(const Pools& pools, void* pointer, const std::optional<ByteRange>& part,
               const char* call) {
  const std::optional<BlockPlace> block = pools.place_at(address_of(pointer));
  if (!block) return {pointer, part};
  const ByteRange within = part.value_or(ByteRange{0, block->size_bytes});
  if (within.offset > block->size_bytes || within.bytes > block->size_bytes - within.offset) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{} bytes from {} are not within the block of {} bytes", within.bytes,
                            within.offset, block->size_bytes));
  }
  return {to_pointer(block->segment), ByteRange{block->offset + within.offset, within.bytes}};
}

/// All of one request is all of its target memory.
MigrateOptions for_one_request(const MigrateOptions& options) {
  MigrateOptions single = options;
  single.reserve_first |= options.all_or_nothing;
  return single;
}

Migration start_move(RuntimeParts& parts, void* pointer, const std::optional<ByteRange>& part,
                     Location to, const MigrateOptions& options, const char* call) {
  const RuntimeParts::Entry entry(parts, call);
  entry->topology.require(to, call);
  check_background_options(options, call);
  const Named named = named_by(entry->pools, pointer, part, call);
  std::shared_ptr<Allocation> allocation = entry->memory.require(named.pointer, call);
  const SlotRange range = slots_of(*allocation, named.part, call);
  check_background_move(*allocation, entry->mover.attached(), options, call);
  check_not_dropped(*allocation, range, call);
  entry->mover.reach().require_atomics(*allocation, range, to, call);
  return Migration(entry->mover.submit(std::move(allocation), range, to, for_one_request(options)));
}

MigrationReport move(RuntimeParts& parts, void* pointer, const std::optional<ByteRange>& part,
                     Location to, const MigrateOptions& options) {
  constexpr const char* call = "vma::migrate";
  // Waits outside, so that a shutdown can end the move.
  if (options.scope == StopScope::attached)
    return start_move(parts, pointer, part, to, options, call).wait();
  const RuntimeParts::Entry entry(parts, call);
  entry->topology.require(to, call);
  check_held_move(options, call);
  const Named named = named_by(entry->pools, pointer, part, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require(named.pointer, call);
  const SlotRange range = slots_of(*allocation, named.part, call);
  check_usable(*allocation, call);
  check_no_hook(*allocation, call);
  const AwaitedCallbacks progress(entry->mover.callbacks(), static_cast<bool>(options.on_progress));
  const MoveClaim claim = MoveClaim::take(allocation);
  return entry->mover.move(*allocation, range, to, for_one_request(options));
}

}  // namespace

inline namespace v1 {

Migration Runtime::migrate_async(void* pointer, Location to, const MigrateOptions& options) {
  return start_move(*parts_, pointer, std::nullopt, to, options, "vma::migrate_async");
}

Migration Runtime::migrate_async(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                                 const MigrateOptions& options) {
  return start_move(*parts_, pointer, ByteRange{offset, bytes}, to, options, "vma::migrate_async");
}

MigrationReport Runtime::migrate(void* pointer, Location to, const MigrateOptions& options) {
  return move(*parts_, pointer, std::nullopt, to, options);
}

MigrationReport Runtime::migrate(void* pointer, std::size_t offset, std::size_t bytes, Location to,
                                 const MigrateOptions& options) {
  return move(*parts_, pointer, ByteRange{offset, bytes}, to, options);
}

void Runtime::attach(Stream stream, StreamWork work) {
  const RuntimeParts::Entry entry(*parts_, "vma::attach");
  entry->mover.attached().attach(named(stream), Address{}, work);
  entry->mover.prepare_for(Address{});
  entry->scope_changed();
}

void Runtime::attach(Stream stream, void* pointer, StreamWork work) {
  constexpr const char* call = "vma::attach";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  entry->mover.attached().attach(named(stream), allocation->begin(), work);
  entry->mover.prepare_for(allocation->begin());
  entry->scope_changed();
}

void Runtime::detach(Stream stream) {
  const RuntimeParts::Entry entry(*parts_, "vma::detach");
  entry->mover.attached().detach(named(stream), Address{});
  entry->scope_changed();
}

bool Runtime::try_detach(Stream stream) {
  const RuntimeParts::Entry entry(*parts_, "vma::detach");
  if (!entry->mover.attached().try_detach(named(stream), Address{})) return false;
  entry->scope_changed();
  return true;
}

void Runtime::detach(Stream stream, void* pointer) {
  constexpr const char* call = "vma::detach";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  entry->mover.attached().detach(named(stream), allocation->begin());
  entry->scope_changed();
}

void Runtime::note_export(void* pointer) {
  constexpr const char* call = "vma::note_export";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  {
    const MutexLock lock(allocation->operations());
    check_usable(*allocation, call);
    check_not_dropped(*allocation, call);
    allocation->exported = true;
  }
  // Code that knows the exported memory may write to it, whatever rights the slots have.
  entry->memory.chunks().drop_copies(*allocation);
  entry->memory.tell_changed(*allocation);
}

AttachedStream::AttachedStream(Runtime& runtime, Stream stream, void* pointer, StreamWork work)
    : stream_(stream), pointer_(pointer) {
  if (pointer == nullptr) {
    runtime.attach(stream, work);
  } else {
    runtime.attach(stream, pointer, work);
  }
  runtime_ = &runtime;
}

AttachedStream::AttachedStream(AttachedStream&& other) noexcept
    : runtime_(std::exchange(other.runtime_, nullptr)),
      stream_(other.stream_),
      pointer_(other.pointer_) {}

AttachedStream& AttachedStream::operator=(AttachedStream&& other) noexcept {
  if (this == &other) return *this;
  detach();
  runtime_ = std::exchange(other.runtime_, nullptr);
  stream_ = other.stream_;
  pointer_ = other.pointer_;
  return *this;
}

AttachedStream::~AttachedStream() {
  detach();
}

/// The stream or the allocation may not exist any more: then there is nothing to detach.
void AttachedStream::detach() noexcept {
  if (runtime_ == nullptr) return;
  if (parts_of(*runtime_).in_forked_child()) {  // The parent's stream stays attached in the parent.
    runtime_ = nullptr;
    return;
  }
  try {
    if (pointer_ == nullptr) {
      runtime_->detach(stream_);
    } else {
      runtime_->detach(stream_, pointer_);
    }
  } catch (const std::exception& error) {
    log(LogLevel::debug, "could not detach a stream: {}", error.what());
  }
  runtime_ = nullptr;
}

}  // namespace v1
}  // namespace vma
