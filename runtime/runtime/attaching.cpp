// Which streams moves stop, and which memory code outside knows.
#include <vma/error.hpp>
#include <vma/runtime.hpp>

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include "base/log.hpp"

#include <exception>
#include <utility>

namespace vma {
namespace {

/// Without a driver call, since the driver does not know a destroyed stream.
BoundStream named(Stream stream) {
  return {{}, StreamHandle{reinterpret_cast<std::uint64_t>(stream)}};
}

}  // namespace

inline namespace v1 {

void Runtime::attach(Stream stream, StreamWork work) {
  const RuntimeParts::Entry entry(*parts_, "vma::attach");
  entry->migrator.attached().attach(named(stream), Address{}, work);
  entry->migrator.prepare_for(Address{});
  entry->scope_changed();
}

void Runtime::attach(Stream stream, void* pointer, StreamWork work) {
  constexpr const char* call = "vma::attach";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  entry->migrator.attached().attach(named(stream), allocation->begin(), work);
  entry->migrator.prepare_for(allocation->begin());
  entry->scope_changed();
}

void Runtime::detach(Stream stream) {
  const RuntimeParts::Entry entry(*parts_, "vma::detach");
  entry->migrator.attached().detach(named(stream), Address{});
  entry->scope_changed();
}

bool Runtime::try_detach(Stream stream) {
  const RuntimeParts::Entry entry(*parts_, "vma::detach");
  if (!entry->migrator.attached().try_detach(named(stream), Address{})) return false;
  entry->scope_changed();
  return true;
}

void Runtime::detach(Stream stream, void* pointer) {
  constexpr const char* call = "vma::detach";
  const RuntimeParts::Entry entry(*parts_, call);
  const std::shared_ptr<Allocation> allocation = entry->memory.require_around(pointer, call);
  entry->migrator.attached().detach(named(stream), allocation->begin());
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
