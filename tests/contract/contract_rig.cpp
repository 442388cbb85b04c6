#include "contract/contract_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace vma {
namespace {

constexpr std::size_t pinned_words = 512;
constexpr TimePoint patience = std::chrono::seconds(20);

void quietly(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {  // After a sticky error nothing can be released.
  }
}

}  // namespace

ContractRig::ContractRig(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {
  for (int ordinal = 0; ordinal < driver_->device_count(); ++ordinal) {
    contexts_.push_back(driver_->retain_primary(DeviceId{ordinal}));
    streams_.push_back(driver_->create_stream(contexts_.back(), StreamKind::non_blocking));
    page_ = std::max(page_, driver_->granularity(vma::gpu(ordinal)));
  }
  page_ = std::max(page_, driver_->granularity(host(0)));
  words_ = static_cast<std::uint64_t*>(
      driver_->allocate_pinned(contexts_.front(), pinned_words * sizeof(std::uint64_t)));
}

ContractRig::~ContractRig() {
  for (const auto& [key, kernel] : kernels_) quietly([&] { driver_->unload_kernel(kernel); });
  for (const EventHandle event : events_) quietly([&] { driver_->destroy_event(event); });
  for (const BoundStream stream : extra_streams_) quietly([&] { driver_->destroy_stream(stream); });
  for (const ContextHandle context : extra_contexts_)
    quietly([&] { driver_->destroy_context(context); });
  quietly([&] { driver_->free_pinned(contexts_.front(), words_); });
  for (int ordinal = 0; ordinal < gpus(); ++ordinal) {
    quietly([&] { driver_->destroy_stream(stream(ordinal)); });
    quietly([&] { driver_->release_primary(DeviceId{ordinal}); });
  }
}

BoundStream ContractRig::new_stream(ContextHandle context, StreamKind kind) {
  extra_streams_.push_back(driver_->create_stream(context, kind));
  return extra_streams_.back();
}

ContextHandle ContractRig::new_context(int gpu) {
  extra_contexts_.push_back(driver_->create_context(DeviceId{gpu}));
  return extra_contexts_.back();
}

ContextHandle ContractRig::new_green_context(int gpu) {
  const int multiprocessors = std::min(16, driver_->device_info(DeviceId{gpu}).multiprocessors);
  extra_contexts_.push_back(driver_->create_green_context(DeviceId{gpu}, multiprocessors));
  return extra_contexts_.back();
}

EventHandle ContractRig::new_event(ContextHandle context) {
  events_.push_back(driver_->create_event(context));
  return events_.back();
}

std::uint64_t* ContractRig::new_word() {
  if (words_used_ == pinned_words) throw std::runtime_error("a test has used up the rig's words");
  return words_ + words_used_++;
}

KernelHandle ContractRig::kernel(ContextHandle context, const Kernel& kernel) {
  const auto key = std::pair(context, kernel.entry);
  const auto found = kernels_.find(key);
  if (found != kernels_.end()) return found->second;
  const KernelHandle loaded = driver_->load_kernel(context, kernel);
  kernels_.emplace(key, loaded);
  return loaded;
}

int ContractRig::finish(BoundStream stream, const std::function<void()>& work) {
  bool done = false;
  const int native = native_of([&] {
    work();
    done = wait(stream);
  });
  return native != 0 || done ? native : -1;
}

int ContractRig::run_copy(int gpu, Address target, Address source, std::uint64_t size_bytes) {
  return finish(stream(gpu), [&] { driver_->copy(stream(gpu), target, source, size_bytes); });
}

void ContractRig::fill(int gpu, const TestMapping& memory, std::uint64_t seed) {
  ASSERT_EQ(run(gpu, fill_kernel(), memory.pointer(), memory.words(), seed), 0);
}

std::uint64_t ContractRig::mismatches(int gpu, const TestMapping& memory, std::uint64_t seed) {
  std::uint64_t* count = new_word();
  EXPECT_EQ(run(gpu, compare_kernel(), memory.pointer(), memory.words(), seed, count), 0);
  return *count;
}

std::uint64_t ContractRig::word_at(int gpu, Address address) {
  std::uint64_t* word = new_word();
  EXPECT_EQ(run_copy(gpu, address_of(word), address, sizeof *word), 0);
  return *word;
}

bool ContractRig::wait(BoundStream stream) {
  return driver_->wait_stream(stream, driver_->clock().now() + patience);
}

bool ContractRig::wait(EventHandle event) {
  return driver_->wait_event(event, driver_->clock().now() + patience);
}

bool ContractRig::becomes(std::uint64_t& word, std::uint64_t value) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + patience;
  Poll poll;
  while (std::atomic_ref(word).load() != value) {
    if (clock.now() > deadline) return false;
    poll.pause();
  }
  return true;
}

StoppedStream::StoppedStream(ContractRig& rig, BoundStream stream)
    : rig_(rig), stream_(stream), arrived_(rig.new_word()), opened_(rig.new_word()) {
  const WordOperation operations[] = {
      {WordOperation::Kind::write, address_of(arrived_), 1},
      {WordOperation::Kind::wait_until_at_least, address_of(opened_), 1}};
  rig_.driver().batch(stream_, operations);
}

StoppedStream::~StoppedStream() {
  open();
  quietly([&] { rig_.wait(stream_); });
}

bool StoppedStream::stands() {
  return ContractRig::becomes(*arrived_, 1);
}

bool StoppedStream::stands_now() const {
  return std::atomic_ref(*arrived_).load() == 1;
}

void StoppedStream::open() {
  std::atomic_ref(*opened_).store(1);
}

bool cpu_can_read(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool can = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

bool cpu_can_write(void* address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const char byte = 0;
  const bool can = write(ends[1], &byte, 1) == 1 && read(ends[0], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

}  // namespace vma
