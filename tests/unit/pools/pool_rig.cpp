#include "unit/pools/pool_rig.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace vma {

PoolRig::PoolRig(const std::string& machine, RuntimeOptions options)
    : RuntimeRig(machine, std::move(options)) {}

PoolRig::~PoolRig() {
  for (const Stop& stop : stops_) MemoryRig::let_go(stop.word);
  for (const Stop& stop : stops_) {
    machine().synchronize_context(stop.stream.context);
    machine().free_pinned(stop.stream.context, stop.word);
  }
  stops_.clear();
  check();
  for (const Stream stream : std::vector<Stream>(made_)) end(stream);
  for (const BoundStream stream : foreign_) machine().destroy_stream(stream);
}

void PoolRig::check() {
  pools().check_invariants();
  check_invariants();
}

Stream PoolRig::new_stream(int gpu) {
  made_.push_back(runtime().make_stream(vma::gpu(gpu)));
  return made_.back();
}

void PoolRig::end(Stream stream) {
  runtime().destroy_stream(stream);
  std::erase(made_, stream);
}

BoundStream PoolRig::foreign_stream() {
  const ContextHandle context = parts_of(runtime()).machinery->launcher.bind(stream(0)).context;
  foreign_.push_back(machine().create_stream(context, StreamKind::non_blocking));
  return foreign_.back();
}

Stream PoolRig::as_stream(BoundStream stream) {
  return reinterpret_cast<Stream>(static_cast<std::uint64_t>(stream.handle));
}

void PoolRig::stop(Stream stream) {
  const BoundStream bound = parts_of(runtime()).machinery->launcher.bind(stream);
  auto* const word =
      static_cast<std::uint64_t*>(machine().allocate_pinned(bound.context, sizeof(std::uint64_t)));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  machine().batch(bound, {&wait, 1});
  stops_.push_back({bound, word});
}

void PoolRig::let_go(Stream stream) {
  for (const Stop& stop : stops_) {
    if (stop.stream.handle == handle_of(stream)) MemoryRig::let_go(stop.word);
  }
  if (parts_of(runtime()).machinery->launcher.made(handle_of(stream))) finish(stream);
}

void PoolRig::finish(Stream stream) {
  machine().wait_stream(parts_of(runtime()).machinery->launcher.bind(stream), never);
}

}  // namespace vma
