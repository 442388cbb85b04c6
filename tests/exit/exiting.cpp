// A program that exits in the middle of its moves, in the way named by its first argument, on real
// or simulated machines. `exits.py` starts it many times and checks how it ends.
//
//   exiting WAY [milliseconds before it exits]
//
// Prints "exits NANOSECONDS" (CLOCK_MONOTONIC) just before it exits. Errors that no call may report
// at the end of the process go to standard error.
#include <vma/vma.hpp>

#include "support/test_kernels.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using Word = std::uint64_t;
using std::chrono::milliseconds;
constexpr std::size_t MiB = 1 << 20;

/// Always takes the whole time, so that the exit may come at any moment.
void spend(milliseconds time) {
  poll(nullptr, 0, static_cast<int>(time.count()));
}

/// The last static to be destroyed, and slow: remaining threads have time to do harm.
struct Linger {
  ~Linger() {
    const char* const text = std::getenv("EXITING_LINGER_MS");
    if (text != nullptr) spend(milliseconds(std::atoi(text)));
  }
};
const Linger linger;

std::atomic<std::size_t> ready{0};  // Threads that have finished a first call.
// Set if the exit is slow on purpose, so that calls may return.
std::atomic<bool> calls_come_back{false};

void say_exits() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("exits %lld\n", static_cast<long long>(std::chrono::nanoseconds(now).count()));
  std::fflush(stdout);
}

[[noreturn]] void exit_now() {
  say_exits();
  std::exit(0);
}

/// Repeats the body on a thread that nobody joins.
void forever(const std::function<void()>& body) {
  std::thread([body] {
    for (bool first = true;; first = false) {
      try {
        body();
      } catch (const vma::Error& error) {
        // A move may fail on a busy machine, but no call may report the end of the process.
        if (error.kind() == vma::ErrorKind::driver_gone) {
          if (calls_come_back) return;
          static_cast<void>(!write(2, error.what(), std::string(error.what()).size()));
        }
      }
      if (first) ++ready;
    }
  }).detach();
}

struct Load {
  std::size_t bytes;
  Word* live = make("live");
  Word* held = make("held");
  vma::Place other = vma::runtime().places().at(1);
  vma::Stream stream = vma::make_stream(vma::gpu(0));
  vma::AttachedStream attached{stream};

  explicit Load(std::size_t size_bytes) : bytes(size_bytes) {}

  Word* make(const char* tag) const {
    vma::AllocOptions options;
    options.tag = tag;
    options.chunk_bytes = bytes / 4;
    return static_cast<Word*>(vma::alloc(bytes, vma::gpu(0), options));
  }

  vma::Place place(int move) const { return move % 2 == 0 ? other : vma::gpu(0); }

  void launch() {
    forever([this] {
      for (int i = 0; i < 8; ++i) {
        vma::launch(stream, vma::add_kernel(), {256}, {256}, live, Word{bytes / sizeof(Word)},
                    Word{1});
      }
      vma::record_use(live, bytes, vma::gpu(0));
      vma::synchronize(stream);
    });
  }
  void move_live() {
    forever([this, move = 0]() mutable { vma::migrate_async(live, place(move++)).wait(); });
  }
  void move_held() {
    forever([this, move = 0]() mutable { vma::migrate(held, place(move++)); });
  }
  void start() {
    launch();
    move_live();
    move_held();
    while (ready < 3) spend(milliseconds(1));
  }
};

/// A static that uses the runtime when the process has almost ended.
struct LateUser {
  Load* load = nullptr;
  std::thread worker;
  ~LateUser() {
    if (load == nullptr) return;
    vma::free(load->held);
    try {
      vma::migrate(load->live, load->other);
      std::fputs("a call at the end of the process was let in\n", stderr);
    } catch (const vma::Error& error) {
      if (error.kind() != vma::ErrorKind::driver_gone) std::fputs(error.what(), stderr);
    }
    worker.join();
  }
};
LateUser late_user;

/// Makes a decision, so that there is something to write just before the exit.
void decide() {
  if (std::getenv("VMART_DECISIONS") == nullptr) return;
  vma::runtime().pause_scheduler();
  vma::runtime().resume_scheduler();
}

using Way = std::function<void(Load&, milliseconds)>;

void nap(Load&, milliseconds time) {
  spend(time);
}

void from_a_thread(Load&, milliseconds time) {
  std::thread([time] {
    spend(time);
    exit_now();
  }).detach();
  while (true) spend(milliseconds(1'000));
}

void cancelled(Load& load, milliseconds time) {
  Word* const memory = load.make("cancelled");
  vma::Migration move = vma::migrate_async(memory, load.other);
  spend(time);
  move.cancel();
}

void in_a_callback(Load& load, milliseconds time) {
  spend(time);
  vma::Migration move = vma::migrate_async(load.make("callback"), load.other);
  move.on_done([] { exit_now(); });
  while (true) spend(milliseconds(1'000));
}

void in_a_hook(Load& load, milliseconds time) {
  spend(time);
  Word* const memory = load.make("hook");
  vma::MoveHooks hooks;
  hooks.before = [](const vma::MoveEvent&) { exit_now(); };
  const vma::MoveHookRegistration hook = vma::on_move(memory, hooks);
  vma::migrate(memory, load.other);
  while (true) spend(milliseconds(1'000));
}

void with_a_late_user(Load& load, milliseconds time) {
  calls_come_back = true;
  late_user.worker = std::thread([&load, time] {
    const auto end = std::chrono::steady_clock::now() + time + milliseconds(500);
    try {
      while (std::chrono::steady_clock::now() < end) {
        vma::migrate_async(load.live, load.place(0)).wait();
      }
    } catch (const vma::Error&) {  // The call returns with an error, so that the thread can be
                                   // joined.
    }
  });
  spend(time);
  late_user.load = &load;
}

void quickly(Load&, milliseconds time) {
  spend(time);
  say_exits();
  std::quick_exit(0);
}

[[noreturn]] void throws(Load&, milliseconds time) {
  spend(time);
  std::set_terminate([] { std::abort(); });
  say_exits();
  throw std::logic_error("nobody catches this");
}

void forks(Load&, milliseconds time) {
  spend(time);
  if (fork() == 0) std::exit(0);  // The parent's files and socket must stay as they are.
  spend(milliseconds(20));
}

/// In the middle of whatever the threads do, and perhaps for longer than stops may last.
void stands_still(Load&, milliseconds time) {
  const pid_t process = getpid();
  const pid_t other = fork();
  if (other == 0) {  // Only what is safe in a child of a program with threads.
    spend(time);
    kill(process, SIGSTOP);
    spend(milliseconds(300));
    kill(process, SIGCONT);
    _exit(0);
  }
  waitpid(other, nullptr, 0);
}

void becomes_another(Load&, milliseconds time) {
  spend(time);
  say_exits();
  execl("/bin/true", "true", nullptr);
}

void is_killed(Load&, milliseconds time) {
  spend(time);
  say_exits();
  kill(getpid(), SIGKILL);
}

}  // namespace

int main(int count, char** arguments) try {
  const std::map<std::string, Way> ways{{"return", nap},       {"thread", from_a_thread},
                                        {"cancel", cancelled}, {"callback", in_a_callback},
                                        {"hook", in_a_hook},   {"late_user", with_a_late_user},
                                        {"quick", quickly},    {"throw", throws},
                                        {"fork", forks},       {"stand", stands_still},
                                        {"kill", is_killed},   {"exec", becomes_another},
                                        {"idle", nap}};
  const std::string way = count > 1 ? arguments[1] : "return";
  const auto found = ways.find(way);
  if (found == ways.end()) return 64;
  const milliseconds time(count > 2 ? std::atoi(arguments[2]) : 20);
  const bool simulated = vma::runtime().description().starts_with("simulated");
  // Never destroyed: threads use it to the very end.
  // A simulated libcuda.so.1 is a real driver here, but moves no more than a simulated machine.
  const char* const mebibytes = std::getenv("EXITING_MIB");
  const int load_mib = mebibytes != nullptr ? std::atoi(mebibytes) : simulated ? 4 : 256;
  Load& load = *new Load(static_cast<std::size_t>(load_mib) * MiB);
  if (way != "idle") load.start();
  decide();
  found->second(load, time);
  say_exits();
  return 0;
} catch (const vma::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.kind() == vma::ErrorKind::no_driver ? 77 : 1;
}
