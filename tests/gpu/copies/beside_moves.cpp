// Copies, fills and nodes of graphs of every kind in one thread, while another one moves the memory
// that they name between HBM and the host's memory. The program has no scopes of its own. No call
// may fail, and each must copy the right bytes.
//
//   beside_moves [--count N] [--moves N] [--seconds N] [--kind PART]
//                [--vmart-first] [--list]
//
// Each kind is called N times (2 000), and until so many moves (8) have ended beside it; a kind
// that takes longer than --seconds (60) fails. `--vmart-first`: vmart opens before anything of CUDA
// is used. Exits with 77 without a GPU.
#include "gpu/copies/copies.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

namespace {

constexpr std::size_t memory_bytes = std::size_t{16} << 20;
constexpr std::size_t places = 64;  // So many parts of the memory are copied in turn.
constexpr std::size_t stride = memory_bytes / places;
constexpr int calls_ahead = 16;
constexpr int exit_skipped = 77;

struct Options {
  long count = 2'000, moves = 8, seconds = 60;
  std::string kind;
  bool vmart_first = false, list = false;
};

#ifndef BESIDE_MOVES_RUNTIME
}  // namespace
std::vector<Kind> runtime_kinds() {
  return {};
}
namespace {
#endif

[[noreturn]] void fail(const char* what, const char* why) {
  std::printf("FAILED %s: %s\n", what, why);
  std::exit(1);
}
void check(vmart_status status, const char* what) {
  if (status != VMART_OK) fail(what, vmart_last_error());
}
#define CHECK(call) check(call, #call)

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> const char* {
      if (i + 1 == count) fail(words[i], "needs a value");
      return words[++i];
    };
    if (word == "--count")
      options.count = std::atol(value());
    else if (word == "--moves")
      options.moves = std::atol(value());
    else if (word == "--seconds")
      options.seconds = std::atol(value());
    else if (word == "--kind")
      options.kind = value();
    else if (word == "--vmart-first")
      options.vmart_first = true;
    else if (word == "--list")
      options.list = true;
    else
      fail(word.c_str(), "is no option");
  }
  return options;
}

/// Two allocations, which a thread moves to and fro until this ends.
class MovingMemory {
 public:
  MovingMemory() {
    for (char*& each : memory_) {
      void* made = nullptr;
      CHECK(vmart_alloc(memory_bytes, {VMART_GPU, 0}, &made));
      each = static_cast<char*>(made);
    }
  }
  void begin() {
    migrator_ = std::thread([this] { move(); });
  }
  void end() {
    ended_ = true;
    if (migrator_.joinable()) migrator_.join();
  }
  char* source() const { return memory_[0]; }
  char* target() const { return memory_[1]; }
  long moved() const { return moved_; }
  long refused() const { return refused_; }
  const std::string& why() const { return why_; }  ///< Once it has ended.

 private:
  void move() {
    for (int round = 0; !ended_; ++round) {
      // Each allocation goes to the host, then each comes back.
      const vmart_place to = {(round / 2) % 2 == 0 ? VMART_HOST : VMART_GPU, 0};
      vmart_migration* migration = nullptr;
      vmart_status status = vmart_migrate_async(memory_[round % 2], 0, 0, to, nullptr, &migration);
      if (status == VMART_OK) status = vmart_migration_wait(migration);
      ++(status == VMART_OK ? moved_ : refused_);
      if (status != VMART_OK && why_.empty()) why_ = vmart_last_error();
      vmart_migration_release(migration);
    }
  }

  char* memory_[2] = {};
  std::atomic<bool> ended_{false};
  std::atomic<long> moved_{0}, refused_{0};
  std::string why_;
  std::thread migrator_;
};

char pattern(std::size_t place, std::size_t byte) {
  return static_cast<char>(place * 37 + byte * 11 + byte / 251);
}

struct Result {
  long calls = 0, failed = 0, moves = 0, wrong = 0;
  int code = 0;
  bool late = false;
};

class Play {
 public:
  Play(MovingMemory& memory, const Options& options)
      : memory_(memory),
        options_(options),
        host_(static_cast<char*>(pinned_memory(copied_bytes))),
        stream_(new_stream()) {
    if (host_ == nullptr || stream_ == nullptr) fail("CUDA", "no pinned memory, or no stream");
    // Where work is stopped through its streams, moves need them.
    CHECK(vmart_attach(stream_));
    CHECK(vmart_attach(nullptr));
    std::vector<char> bytes(memory_bytes);
    for (std::size_t i = 0; i < memory_bytes; ++i) bytes[i] = pattern(i / stride, i % stride);
    CHECK(vmart_write(memory_.source(), bytes.data(), bytes.size()));
  }

  Result run(const Kind& kind) {
    const std::vector<char> zeros(memory_bytes);
    CHECK(vmart_write(memory_.target(), zeros.data(), zeros.size()));
    for (std::size_t i = 0; i < copied_bytes; ++i) host_[i] = pattern(places, i);
    Result result;
    const long moved_before = memory_.moved();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options_.seconds);
    const auto enough = [&] {
      result.moves = memory_.moved() - moved_before;
      return result.calls >= options_.count && result.moves >= options_.moves;
    };
    while (!enough() && !result.late) {
      call(kind, result);
      result.late = std::chrono::steady_clock::now() > end;
    }
    wait(result);
    wrong(kind, result);
    return result;
  }

 private:
  void call(const Kind& kind, Result& result) {
    last_ = static_cast<std::size_t>(result.calls++) % places;
    const std::size_t offset = last_ * stride;
    const int code =
        kind.call({memory_.source() + offset, memory_.target() + offset, host_, stream_});
    note(code, result);
    if (result.calls % calls_ahead == 0) wait(result);
  }
  void wait(Result& result) {
    note(wait_for(stream_), result);
    note(wait_for(nullptr), result);
  }
  static void note(int code, Result& result) {
    if (code == 0) return;
    ++result.failed;
    result.code = code;
  }

  /// Counts the parts with other bytes than they should have.
  void wrong(const Kind& kind, Result& result) const {
    if (kind.leaves == Leaves::nothing) return;
    if (kind.leaves == Leaves::source_in_host) {
      for (std::size_t i = 0; i < copied_bytes; ++i) {
        if (host_[i] != pattern(last_, i)) ++result.wrong;
      }
      return;
    }
    std::vector<char> bytes(memory_bytes);
    CHECK(vmart_read(memory_.target(), bytes.data(), bytes.size()));
    const auto touched = std::min<std::size_t>(places, static_cast<std::size_t>(result.calls));
    for (std::size_t place = 0; place < touched; ++place) {
      for (std::size_t i = 0; i < copied_bytes; ++i) {
        const char right = kind.leaves == Leaves::source_in_target ? pattern(place, i)
                           : kind.leaves == Leaves::host_in_target ? pattern(places, i)
                                                                   : filled_value;
        if (bytes[place * stride + i] != right) ++result.wrong;
      }
    }
  }

  MovingMemory& memory_;
  const Options& options_;
  char* const host_;
  const vmart_stream stream_;
  std::size_t last_ = 0;
};

std::optional<MovingMemory> opened;

void begin(const Options& options) {
  if (options.vmart_first) opened.emplace();
  if (begin_driver() != 0) {
    std::printf("skipped: no GPU\n");
    std::exit(exit_skipped);
  }
  // CUDA's runtime fetches the driver's functions at its first use.
  const std::vector<Kind> kinds = runtime_kinds();
  const auto query = std::ranges::find(kinds, "cudaPointerGetAttributes",
                                       [](const Kind& kind) { return kind.name; });
  if (query != kinds.end()) static_cast<void>(query->call({}));
  if (!opened) opened.emplace();
}

bool show(const Result& result) {
  std::printf("%9ld calls %6ld failed %9ld bytes wrong %7ld moves", result.calls, result.failed,
              result.wrong, result.moves);
  if (result.failed > 0) std::printf("  last code %d", result.code);
  if (result.late) std::printf("  OUT OF TIME");
  std::printf("\n");
  return result.failed == 0 && result.wrong == 0 && !result.late;
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // A crash shows what ran.
  begin(options);
  std::vector<Kind> kinds = driver_kinds();
  for (Kind& kind : runtime_kinds()) kinds.push_back(std::move(kind));
  std::erase_if(
      kinds, [&](const Kind& kind) { return kind.name.find(options.kind) == std::string::npos; });
  if (options.list) {
    for (const Kind& kind : kinds) std::printf("%s\n", kind.name.c_str());
    std::exit(0);
  }
  Play play(*opened, options);
  opened->begin();
  int bad = 0;
  for (const Kind& kind : kinds) {
    std::printf("%-42s ", kind.name.c_str());
    if (!show(play.run(kind))) ++bad;
  }
  opened->end();
  std::printf("%zu kinds, %d bad; %ld moves, %ld refused%s%s\n", kinds.size(), bad, opened->moved(),
              opened->refused(),
              opened->why().empty() ? "" : ", the first: ", opened->why().c_str());
  std::_Exit(bad == 0 && !kinds.empty() ? 0 : 1);
}
