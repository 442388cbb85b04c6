#include "gpu/pools/stream_allocator.hpp"

#include "runtime/runtime_parts.hpp"
#include "support/test_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace vma {
namespace {

constexpr Dim3 grid{32}, block{256};

}  // namespace

StreamAllocator::StreamAllocator(std::unique_ptr<Driver> driver)
    : driver_(driver.get()),
      runtime_(unique_runtime_of(
          std::make_unique<RuntimeParts>(std::move(driver), resolve_settings({})))) {
  mismatches_ = static_cast<std::uint64_t*>(runtime_->alloc(sizeof(std::uint64_t), host(0)));
  // The first launch of a kernel loads it, which waits for all work of the context.
  for (int gpu = 0; gpu < gpus(); ++gpu) {
    const Stream stream = new_stream(gpu);
    fill(stream, mismatches_, 1, 0);
    add(stream, mismatches_, 1, 0);
    wrong(stream, mismatches_, 0, 0);
    end(stream);
  }
}

StreamAllocator::~StreamAllocator() {
  // A test that failed may have left a capture open.
  for (const Stream stream : capturing_) driver_->destroy_graph(driver_->end_capture(bind(stream)));
  for (const Stop& stop : stops_) {
    std::atomic_ref<std::uint64_t>(*stop.word).store(1, std::memory_order_release);
  }
  for (const Stream stream : streams_) await(stream);
  for (const Stream stream : std::vector<Stream>(streams_)) end(stream);
  for (const auto& [context, word] : pinned_) driver_->free_pinned(context, word);
  runtime_->free(mismatches_);
}

int StreamAllocator::gpus() const {
  return static_cast<int>(std::ranges::count(runtime_->places(), Place::Kind::gpu, &Place::kind));
}

BoundStream StreamAllocator::bind(Stream stream) {
  return parts_of(*runtime_).machinery->launcher.bind(stream);
}

Stream StreamAllocator::new_stream(int gpu) {
  streams_.push_back(runtime_->make_stream(vma::gpu(gpu)));
  return streams_.back();
}

void StreamAllocator::end(Stream stream) {
  runtime_->destroy_stream(stream);
  std::erase(streams_, stream);
}

std::uint64_t* StreamAllocator::pinned_word(ContextHandle context) {
  auto* const word =
      static_cast<std::uint64_t*>(driver_->allocate_pinned(context, sizeof(std::uint64_t)));
  pinned_.emplace_back(context, word);
  return word;
}

void StreamAllocator::await(Stream stream) {
  driver_->wait_stream(bind(stream), never);
}

void StreamAllocator::stop(Stream stream) {
  const BoundStream bound = bind(stream);
  std::uint64_t* const word = pinned_word(bound.context);
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  driver_->batch(bound, {&wait, 1});
  stops_.push_back({bound, word});
}

void StreamAllocator::let_go(Stream stream) {
  const auto of_stream = [&](const Stop& stop) { return stop.stream.handle == handle_of(stream); };
  for (const Stop& stop : stops_) {
    if (of_stream(stop)) {
      std::atomic_ref<std::uint64_t>(*stop.word).store(1, std::memory_order_release);
    }
  }
  std::erase_if(stops_, of_stream);
}

void StreamAllocator::watch_end(Stream stream) {
  const BoundStream bound = bind(stream);
  std::uint64_t* const word = pinned_word(bound.context);
  const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
  driver_->batch(bound, {&write, 1});
  const std::atomic_ref<std::uint64_t> seen(*word);
  Poll poll;
  while (seen.load(std::memory_order_acquire) == 0) poll.pause();
}

void StreamAllocator::order(Stream after, Stream before) {
  const BoundStream from = bind(before);
  const EventHandle event = driver_->create_event(from.context);
  driver_->record(event, from);
  driver_->stream_wait_event(bind(after), event);
  driver_->destroy_event(event);
}

void StreamAllocator::run(Stream stream, const Kernel& kernel, const KernelArguments& arguments) {
  runtime_->launch(stream, kernel, grid, block, arguments);
}

void StreamAllocator::copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  driver_->copy(bind(stream), address_of(to), address_of(from), bytes);
}

void* StreamAllocator::pinned(std::size_t bytes) {
  const ContextHandle context = bind(streams_.front()).context;
  pinned_.emplace_back(context, driver_->allocate_pinned(context, bytes));
  return pinned_.back().second;
}

void StreamAllocator::fill(Stream stream, void* words, std::uint64_t count, std::uint64_t seed) {
  run(stream, fill_kernel(), KernelArguments::of(words, count, seed));
}

void StreamAllocator::add(Stream stream, void* words, std::uint64_t count, std::uint64_t value) {
  run(stream, add_kernel(), KernelArguments::of(words, count, value));
}

std::uint64_t StreamAllocator::wrong(Stream stream, void* words, std::uint64_t count,
                                     std::uint64_t seed) {
  std::uint64_t found = 0;
  runtime_->write(mismatches_, std::as_bytes(std::span(&found, 1)));
  run(stream, compare_kernel(), KernelArguments::of(words, count, seed, mismatches_));
  await(stream);
  runtime_->read(mismatches_, std::as_writable_bytes(std::span(&found, 1)));
  return found;
}

void StreamAllocator::begin_capture(Stream stream) {
  driver_->begin_capture(bind(stream), CaptureMode::global);
  capturing_.push_back(stream);
}

ExecGraphHandle StreamAllocator::end_capture(Stream stream) {
  std::erase(capturing_, stream);
  const GraphHandle graph = driver_->end_capture(bind(stream));
  const ExecGraphHandle ready = driver_->instantiate(graph);
  driver_->destroy_graph(graph);
  return ready;
}

void StreamAllocator::launch(Stream stream, ExecGraphHandle graph) {
  driver_->launch_graph(bind(stream), graph);
}

void StreamAllocator::destroy(ExecGraphHandle graph) {
  driver_->destroy_exec_graph(graph);
}

}  // namespace vma
