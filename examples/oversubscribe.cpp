// A working set of 1.25 times the HBM that the runtime may use. The rest is in host memory, and the
// scheduler keeps what is read most in HBM.
// Each row is measured once the scheduler has moved nothing for a while, and shows when it last
// did.
//   oversubscribe [MiB of HBM]    On a simulated machine, GB/s are those of this computer's
//                                 processors; the share of the hot fifth in HBM says more.
#include "hot_and_cold.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

namespace {

constexpr std::size_t MiB = 1 << 20;
constexpr std::array hot_shares = {0.995, 0.95, 0.80};
using Seconds = HotAndCold::Seconds;

struct Size {
  std::size_t bytes = 0, chunk_bytes = 0;
};

vma::RuntimeOptions on_one_gpu() {
  vma::RuntimeOptions options;
  options.devices = {0};
  options.half_life = std::chrono::milliseconds(200);
  return options;
}

/// Bytes per second with everything at one place.
double all_at(vma::Place at, const Size& size, Seconds time) {
  vma::Runtime runtime(on_one_gpu());
  HotAndCold array(runtime, size.bytes, size.chunk_bytes, &at);
  array.read(0.8, time / 4);  // Loads the kernel.
  return array.read(0.8, time);
}

/// Runs with the scheduler, and prints where the memory is at the end.
bool scheduled(std::size_t capacity, const Size& size, Seconds time, double hbm, double host) {
  vma::RuntimeOptions options = on_one_gpu();
  options.capacity_bytes[vma::gpu(0)] = capacity;
  options.policy = "cost_benefit";
  vma::Runtime runtime(options);
  HotAndCold array(runtime, size.bytes, size.chunk_bytes, nullptr);
  const HotAndCold::Shares first = array.in_hbm();
  fmt::print("at first {:.0f} % of the hot fifth and {:.0f} % of the rest lie in HBM\n\n",
             100 * first.hot, 100 * first.cold);
  fmt::print("{:>8} {:>11} {:>10} {:>12} {:>12} {:>12} {:>12}\n", "hot", "settled in", "GB/s",
             "best, GB/s", "of best", "hot in HBM", "rest in HBM");
  bool right = false;  // Judged by the last row.
  for (const double share : hot_shares) {
    const std::optional<Seconds> settled = array.settle(share, time);
    const std::string when = settled ? fmt::format("{:.1f} s", settled->count()) : "still moves";
    const double got = array.read(share, time);
    const HotAndCold::Shares lie = array.in_hbm();
    // The hot fifth in HBM, and as much of the rest as fits: three quarters of it.
    const double best = 1 / ((share + (1 - share) * 0.75) / hbm + (1 - share) * 0.25 / host);
    fmt::print("{:>6.1f} % {:>11} {:>10.1f} {:>12.1f} {:>10.0f} % {:>10.0f} % {:>10.0f} %\n",
               100 * share, when, got * 1e-9, best * 1e-9, 100 * got / best, 100 * lie.hot,
               100 * lie.cold);
    right = lie.hot > first.hot;
  }
  return right;
}

bool run(std::size_t asked_mib) {
  bool simulated = false;
  {
    const vma::Runtime runtime(on_one_gpu());
    simulated = runtime.description().starts_with("simulated");
    fmt::print("{}{}\n", runtime.description(),
               simulated ? ": its kernels run on processors, whose GB/s these are" : "");
  }
  const std::size_t chunk_bytes = (simulated ? 2 : 64) * MiB;
  const std::size_t capacity = (asked_mib != 0 ? asked_mib : simulated ? 64 : 16'384) * MiB;
  const Size size{capacity / 4 * 5 / chunk_bytes * chunk_bytes, chunk_bytes};
  const Seconds time(simulated ? 0.25 : 1);
  const double hbm = all_at(vma::gpu(0), size, time);
  const double host = all_at(vma::host(0), size, time);
  fmt::print(
      "{} MiB, all in HBM {:.1f} GB/s, all in host memory {:.1f} GB/s; of HBM capped at {} MiB ",
      size.bytes / MiB, hbm * 1e-9, host * 1e-9, capacity / MiB);
  return scheduled(capacity, size, time, hbm, host);
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0) ? 0 : 1;
} catch (const vma::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
