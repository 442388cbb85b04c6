#include "twin/twin_users.hpp"

#include "twin/user_stream.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <stdexcept>

namespace vma {
namespace {

using std::chrono::nanoseconds;

/// Writers leave every fourth line to the waves.
constexpr std::uint64_t parts = 4;
constexpr std::uint64_t chunk_lines =
    TwinWorld::chunk_bytes / sizeof(std::uint64_t) / twin_line_words;

std::mt19937_64 random_of(TwinWorld& world, unsigned number) {
  return std::mt19937_64(world.plan().seed * 64 + number);
}

int any_gpu(TwinWorld& world, std::mt19937_64& random) {
  return world.plan().gpus[below(random, world.plan().gpus.size())];
}

void nap_at_most(TwinWorld& world, std::mt19937_64& random, std::int64_t most_ns) {
  world.nap(nanoseconds(below(random, static_cast<std::uint64_t>(most_ns))));
}

/// The whole array, or one chunk of it.
TwinSpan some_of(const TwinArray& array, std::mt19937_64& random) {
  TwinSpan span{array.array, array.twin, array.lines(), below(random, parts - 1), parts};
  if (below(random, 2) == 0) {
    const std::uint64_t first = below(random, span.lines / chunk_lines) * chunk_lines;
    span.array += first * twin_line_words;
    span.twin += first * twin_line_words;
    span.lines = chunk_lines;
  }
  return span;
}

UserStream::Kind any_kind(TwinWorld& world, std::mt19937_64& random) {
  if (!world.plan().mixed_streams) return UserStream::Kind::non_blocking;
  return static_cast<UserStream::Kind>(below(random, 4));
}

}  // namespace

void write_twins(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  UserStream stream(world, any_gpu(world, random), any_kind(world, random));
  const std::uint64_t depth_max = 1 + below(random, 4);
  while (!world.finished()) {
    for (std::uint64_t left = 1 + below(random, depth_max); left > 0; --left) {
      if (world.plan().company.waits_across) {
        if (below(random, 4) == 0) stream.record();
        if (below(random, 4) == 0) stream.wait_for_another(random);
      }
      stream.add(some_of(world.any_array(random), random), {random(), 1 + below(random, 6), 1});
    }
    if (below(random, 3) != 0) stream.wait();
    nap_at_most(world, random, 60'000);
  }
}

void write_waves(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  UserStream stream(world, any_gpu(world, random), UserStream::Kind::non_blocking);
  const TwinArray& array = world.array();
  const TwinSpan span{array.array, array.twin, array.lines(), parts - 1, parts};
  while (!world.finished()) {
    TwinAdds adds{random(), 4, 1};
    for (const std::uint64_t factor : {std::uint64_t{1}, ~std::uint64_t{0}}) {
      adds.factor = factor;
      stream.add(span, adds);
      stream.wait();
      nap_at_most(world, random, 2 * nanoseconds(world.plan().gate_limit).count());
    }
  }
}

void capture_graphs(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  SimDriver& machine = world.machine();
  UserStream stream(world, any_gpu(world, random), UserStream::Kind::non_blocking);
  constexpr std::array modes = {CaptureMode::relaxed, CaptureMode::thread_local_mode};
  while (!world.finished()) {
    machine.begin_capture(stream.bound(), modes[below(random, modes.size())]);
    GraphHandle graph{};
    try {
      for (int i = 0; i < 2; ++i)
        stream.add(some_of(world.any_array(random), random), {random(), 3, 1});
      nap_at_most(world, random, 20'000);
      graph = machine.end_capture(stream.bound());
    } catch (const Error& error) {
      // A hold ends captures in its contexts.
      if (!world.plan().ends_captures()) throw;
      if (machine.is_capturing(stream.bound())) {
        try {
          machine.end_capture(stream.bound());
        } catch (const Error&) {  // The error repeats that the capture was ended.
        }
      }
      continue;
    }
    const ExecGraphHandle ready = machine.instantiate(graph);
    for (std::uint64_t replays = 1 + below(random, 3); replays > 0; --replays) {
      world.submit([&] { machine.launch_graph(stream.bound(), ready); });
      nap_at_most(world, random, 40'000);
    }
    stream.wait();
    machine.destroy_exec_graph(ready);
    machine.destroy_graph(graph);
  }
}

void free_plain_memory(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  SimDriver& machine = world.machine();
  while (!world.finished()) {
    const ContextHandle context = world.context(any_gpu(world, random));
    const Address memory = machine.allocate_plain(context, 4096);
    // Programs that capture must not synchronise a context.
    const bool synchronizes = below(random, 2) == 0 && !world.plan().company.captures;
    if (synchronizes) machine.synchronize_context(context);
    machine.free_plain(context, memory);
    nap_at_most(world, random, 40'000);
  }
}

void use_new_streams(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  while (!world.finished()) {
    UserStream stream(world, any_gpu(world, random), UserStream::Kind::non_blocking);
    for (std::uint64_t left = 1 + below(random, 3); left > 0; --left) {
      stream.add(some_of(world.any_array(random), random), {random(), 4, 1});
    }
    nap_at_most(world, random, 30'000);
  }
}

void pin_at_times(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  while (!world.finished()) {
    {
      const Pin pin = world.runtime().pin(world.array().array);
      const auto before = world.runtime().where(world.array().array);
      nap_at_most(world, random, 50'000);
      if (world.runtime().where(world.array().array) != before) {
        throw std::runtime_error("a pinned chunk has moved");
      }
    }
    nap_at_most(world, random, 300'000);
  }
}

void forbid_writing_at_times(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  UserStream stream(world, any_gpu(world, random), UserStream::Kind::non_blocking);
  const TwinArray array = world.make_array(2, world.places().front());
  std::uint64_t* const different = world.pinned_word();
  {
    std::vector<Migration> moves;
    while (!world.finished()) {
      const auto move = [&] {
        MigrateOptions options;
        options.keep_clean_copy = below(random, 3) != 0;
        moves.push_back(world.runtime().migrate_async(
            array.array, world.elsewhere(random, array.array), options));
      };
      move();
      stream.add(some_of(array, random), {random(), 8, 1});
      stream.wait();
      const ReadOnly nobody_writes = world.runtime().read_only(array.array);
      for (std::uint64_t more = below(random, 3); more > 0; --more) {
        moves.back().wait_for(never);
        move();
      }
      world.compare(stream.bound(), stream.gpu(), array, different);
      nap_at_most(world, random, 80'000);
      stream.wait();
      if (*different != 0) throw std::runtime_error("read-only words differ from the twin's");
    }
    for (const Migration& move : moves) move.cancel();
    for (const Migration& move : moves) move.wait_for(never);
  }
  world.compare_all(array);
}

void read_and_write_from_host(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  const TwinArray& array = world.array();
  while (!world.finished()) {
    const std::uint64_t word = below(random, array.lines()) * twin_line_words + twin_line_words - 1;
    std::array<std::uint64_t, 1> value{random()}, back{};
    world.runtime().write(array.array + word, std::as_bytes(std::span(value)));
    world.runtime().write(array.twin + word, std::as_bytes(std::span(value)));
    nap_at_most(world, random, 40'000);
    world.runtime().read(array.array + word, std::as_writable_bytes(std::span(back)));
    if (back != value) throw std::runtime_error("a word that was written reads as another");
  }
}

void free_what_moves(TwinWorld& world, unsigned number) {
  std::mt19937_64 random = random_of(world, number);
  UserStream stream(world, any_gpu(world, random), UserStream::Kind::non_blocking);
  while (!world.finished()) {
    const TwinArray array = world.make_array(2, world.places().front());
    stream.add(some_of(array, random), {random(), 4, 1});
    const Migration move =
        world.runtime().migrate_async(array.array, world.elsewhere(random, array.array));
    nap_at_most(world, random, 60'000);
    world.free_array(array);
    if (!move.wait_for(never)) throw std::runtime_error("a move outlives its memory");
    nap_at_most(world, random, 100'000);
  }
}

}  // namespace vma
