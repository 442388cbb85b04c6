#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>
#include <vma/telemetry.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace vma {

/// What a program does with memory, or its scheduler does.
struct ProgramStep {
  enum class Kind { alloc, place, free, use, hint, pass, collect, tick, press };
  Kind kind = Kind::collect;
  std::size_t object = 0;  // Numbered in the order of allocation.
  std::uint64_t chunk = 0, chunks = 1;
  Place at = gpu(0);
  double passes = 1;
  Hint hint;
  Time time{0};
};

/// Iterations, each with two objects of its own, in which GPUs use what is hot and give hints about
/// it, most of which come true.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

  std::vector<ProgramStep> steps() {
    for (const Place at : {host(0), host(0), gpu(0), gpu(1)}) alloc(6, at);
    for (int iteration = 0; iteration < 10; ++iteration) {
      const std::size_t first = objects_.size();
      for (int object = 0; object < 2; ++object) place(2);
      if (draw(3) == 0) hot_ = draw(4);
      for (int turn = 0; turn < 5; ++turn) act(first + draw(2));
      for (std::size_t object = first; object < first + 2; ++object) free(object);
    }
    return std::move(steps_);
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }
  ProgramStep& add(ProgramStep::Kind kind) {
    steps_.emplace_back().kind = kind;
    return steps_.back();
  }
  void alloc(std::uint64_t chunks, Place at) {
    ProgramStep& step = add(ProgramStep::Kind::alloc);
    step.chunks = chunks;
    step.at = at;
    objects_.push_back(chunks);
  }
  void place(std::uint64_t chunks) {
    add(ProgramStep::Kind::place).chunks = chunks;
    objects_.push_back(chunks);
  }
  void free(std::size_t object) { add(ProgramStep::Kind::free).object = object; }

  void act(std::size_t own) {
    const std::size_t object = draw(3) == 0 ? own : draw(4) == 0 ? draw(4) : hot_;
    if (draw(2) == 0) announce(object);
    for (std::size_t uses = 1 + draw(6); uses > 0; --uses) {
      ProgramStep& use = add(ProgramStep::Kind::use);
      use.object = object;
      use.chunk = draw(objects_[object]);
      use.at = gpu(draw(4) == 0 ? 1 : 0);
      use.passes = draw(3) == 0 ? 1 : 1e7;
    }
    if (draw(2) == 0) announce(draw(4));
    add(ProgramStep::Kind::collect);
    pass();
    if (draw(8) == 0) press();
    if (draw(3) == 0) add(ProgramStep::Kind::collect);  // Without a report.
    add(ProgramStep::Kind::tick);
    pass();
  }
  void announce(std::size_t object) {
    ProgramStep& step = add(ProgramStep::Kind::hint);
    step.object = object;
    step.chunk = draw(objects_[object]);
    step.chunks = 1 + draw(objects_[object] - step.chunk);
    step.hint.device = gpu(draw(4) == 0 ? 1 : 0);
    step.hint.passes = std::vector{0.0, 1.0, 1e7, 1e9}[draw(4)];
    const std::vector<Time> times{Time(0), std::chrono::milliseconds(300), std::chrono::seconds(2),
                                  std::chrono::seconds(60)};
    if (draw(3) > 0) step.hint.next_use = times[draw(4)];
    if (draw(3) == 0) step.hint.until = times[1 + draw(3)];
  }
  void pass() { add(ProgramStep::Kind::pass).time = std::chrono::milliseconds(1 + draw(1500)); }
  void press() {
    ProgramStep& step = add(ProgramStep::Kind::press);
    step.at = gpu(draw(2) == 0 ? 1 : 0);
    step.chunks = 1 + draw(6);
  }

  std::mt19937_64 random_;
  std::vector<ProgramStep> steps_;
  std::vector<std::uint64_t> objects_;  // Their chunks.
  std::size_t hot_ = 0;
};

}  // namespace vma
