#include "unit/memory/memory_rig.hpp"

#include "base/clock.hpp"
#include "machine/machine_file.hpp"
#include "support/stepped_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>

namespace vma {

MemoryRig::MemoryRig(const std::string& machine, const MemoryLimits& limits,
                     const SimOptions& options)
    : machine_(load_machine(machine), options),
      delays_(machine_),
      trace_(delays_, 1'000'000),
      faults_(trace_),
      topology_(Topology::discover(machine_, {})) {
  for (const DeviceId device : topology_.devices()) {
    contexts_.push_back(machine_.retain_primary(device));
  }
  memory_ = std::make_unique<Memory>(faults_, topology_, limits);
}

MemoryRig::~MemoryRig() {
  fail_nothing();
  let_all_go();
  for (const BoundStream stream : streams_) {
    try {
      machine_.wait_stream(stream, never);
    } catch (const Error&) {  // A test broke the context on purpose.
    }
    machine_.destroy_stream(stream);
  }
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked, kept;
  if (memory_) {
    leaked = memory_->chunks().ledger().leak_count();
    kept = memory_->chunks().ledger().kept_count();
  }
  memory_.reset();
  for (std::uint64_t* word : words_) machine_.free_pinned(context(0), word);
  for (const DeviceId device : topology_.devices()) machine_.release_primary(device);
  if (leaked && *leaked + *kept > 0) return;
  for (const std::string& left : machine_.leaks()) ADD_FAILURE() << "left behind: " << left;
}

BoundStream MemoryRig::new_stream(int gpu) {
  streams_.push_back(machine_.create_stream(context(gpu), StreamKind::non_blocking));
  return streams_.back();
}

void MemoryRig::fail(std::set<Call> calls, std::set<int> numbers) {
  faults_.count_only(std::move(calls));
  faults_.fail_calls(std::move(numbers));
}

int MemoryRig::calls(Call call) const {
  const std::vector<TracedCall> calls = trace_.calls();
  return static_cast<int>(
      std::ranges::count_if(calls, [&](const TracedCall& one) { return one.call == call; }));
}

void MemoryRig::launch_spin(BoundStream stream, TimePoint duration) {
  const KernelHandle kernel = machine_.load_kernel(stream.context, Kernel{"", "spin", {}});
  machine_.launch(stream, kernel, {}, KernelArguments::of(duration.count()));
  machine_.unload_kernel(kernel);
}

void MemoryRig::break_context(BoundStream stream) {
  const Address nowhere = machine_.reserve(page(), 0);
  const Kernel body{"", "stray", [nowhere](DeviceView& view, const KernelArguments&, LaunchShape) {
                      view.store(static_cast<std::uint64_t*>(to_pointer(nowhere)),
                                 std::uint64_t{1});
                    }};
  const KernelHandle kernel = machine_.load_kernel(stream.context, body);
  machine_.launch(stream, kernel, {}, {});
  EXPECT_THROW(machine_.wait_stream(stream, never), Error);
  machine_.unload_kernel(kernel);
  machine_.unreserve(nowhere, page());
}

std::uint64_t* MemoryRig::stop(BoundStream stream) {
  words_.push_back(
      static_cast<std::uint64_t*>(machine_.allocate_pinned(context(0), sizeof(std::uint64_t))));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(words_.back()), 1};
  machine_.batch(stream, {&wait, 1});
  return words_.back();
}

void MemoryRig::let_go(std::uint64_t* word) {
  std::atomic_ref<std::uint64_t>(*word).store(1, std::memory_order_release);
}

void MemoryRig::let_all_go() {
  for (std::uint64_t* word : words_) let_go(word);
}

std::shared_ptr<Allocation> MemoryRig::alloc(std::uint64_t pages, Place at,
                                             std::uint64_t chunk_pages) {
  AllocOptions options;
  options.chunk_bytes = chunk_pages * page();
  return memory_->alloc(pages * page(), at, options);
}

Chunk MemoryRig::chunk(Place at, std::uint64_t pages) {
  Ledger& ledger = memory_->chunks().ledger();
  EXPECT_TRUE(ledger.claim(at, pages * page(), Ledger::Use::allocated));
  return Chunk(faults_, ledger, at, pages * page(), topology_.readers(at));
}
std::vector<Chunk> MemoryRig::take_apart(Allocation& allocation) {
  std::vector<Chunk> chunks;
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    if (Chunk chunk = allocation.take_out(slot)) chunks.push_back(std::move(chunk));
  }
  return chunks;
}

void MemoryRig::unclaim(const Chunk& chunk) {
  memory_->chunks().ledger().unclaim(chunk.at(), chunk.size_bytes(), Ledger::Use::allocated);
}

void MemoryRig::expect_shown(const Allocation& allocation) {
  for (std::uint64_t offset = 0; offset < allocation.size_bytes(); offset += page()) {
    const Address address = allocation.begin() + offset;
    const Place at = allocation.place(offset / allocation.geometry().chunk_bytes);
    EXPECT_EQ(machine_.pointer_info(address).at, at) << "offset " << offset;
    for (const Accessor& reader : topology_.readers(at)) {
      EXPECT_EQ(machine_.access(address, reader.who), reader.access)
          << to_string(reader.who) << " at offset " << offset;
    }
  }
}

void step(std::uint64_t seed, const std::function<void(const SimOptions&)>& body) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SteppedExecutor executor({seed, 4});
  SimOptions options;
  options.stepped = &executor;
  options.seed = seed;
  executor.run([&] { body(options); });
}

void sleep(MemoryRig& rig, TimePoint duration) {
  Clock& clock = rig.machine().clock();
  poll_until(clock, clock.now() + duration, [] { return false; });
}

Error expect_error(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    return error;
  }
  ADD_FAILURE() << "no error; expected " << to_string(kind);
  return Error(kind, "", "");
}

bool says(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

bool comes_true(const std::function<bool()>& condition) {
  const SteadyClock clock;
  const TimePoint deadline = clock.now() + std::chrono::seconds(30);
  Poll poll;
  while (!condition()) {
    if (clock.now() > deadline) return false;
    poll.pause();
  }
  return true;
}

void check_settled(Memory& memory) {
  EXPECT_TRUE(comes_true([&] {
    memory.chunks().slow_calls().await_empty();
    std::map<Place, std::uint64_t> booked;
    for (const Place at : memory.topology().places()) {
      booked[at] = memory.chunks().ledger().account(at).allocated_bytes;
    }
    for (const auto& allocation : memory.registry().all()) {
      if (allocation->imported()) continue;  // Booked elsewhere.
      for (const Extent& extent : allocation->extents()) {
        if (!extent.dropped) booked[extent.at] -= extent.bytes;
      }
    }
    return std::ranges::all_of(booked, [](const auto& left) { return left.second == 0; });
  })) << "memory that was freed has not come back";
  memory.chunks().slow_calls().await_empty();
  memory.check_invariants();
}

}  // namespace vma
