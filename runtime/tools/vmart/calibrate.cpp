#include "tools/vmart/vmart_commands.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"
#include "costs/calibration_file.hpp"
#include "measuring/live_stops.hpp"
#include "placement/books/place_number.hpp"
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace vma {
namespace {

template <typename Cell>
void print_measured(const char* title, const Calibration& calibration, std::size_t rows,
                    Cell&& cell) {
  fmt::print("\n{:<18}", title);
  for (const Place at : calibration.places) fmt::print(" {:>8}", place_name(at));
  fmt::print("\n");
  for (std::size_t row = 0; row < rows; ++row) {
    fmt::print("{:<18}", place_name(calibration.places[row]));
    for (std::size_t column = 0; column < calibration.places.size(); ++column) {
      const double value = cell(place_numbered(row), place_numbered(column));
      fmt::print(" {:>8}", value > 0 ? fmt::format("{:.1f}", value) : "-");
    }
    fmt::print("\n");
  }
}

void print_calibration(const Calibration& calibration) {
  constexpr double giga = 1e9, us = 1e-3;
  constexpr std::uint64_t chunk = 64 * MiB;
  const MachineCosts& costs = calibration.costs;
  const std::size_t gpus = costs.gpus(), places = costs.places();
  const auto in_us = [](Time time) { return static_cast<double>(time.count()) * us; };
  fmt::print("machine  {}\ndate     {}\nfile     {}\n", calibration.machine, calibration.date,
             calibration.file.empty() ? "none" : calibration.file);
  print_measured("read GB/s, GPU, at", calibration, gpus,
                 [&](PlaceId gpu, PlaceId at) { return costs.access_rate(gpu, at) / giga; });
  print_measured("latency ns", calibration, gpus, [&](PlaceId gpu, PlaceId at) {
    return costs.reaches(gpu, at) ? static_cast<double>(costs.access_latency(gpu, at).count()) : 0;
  });
  print_measured("copy GB/s from, to", calibration, places,
                 [&](PlaceId from, PlaceId to) { return costs.copy_rate(from, to) / giga; });
  print_measured("move 64 MiB, us", calibration, places, [&](PlaceId from, PlaceId to) {
    return from == to ? 0 : in_us(costs.move_time(from, to, chunk));
  });
  print_measured("stall 64 MiB, us", calibration, places, [&](PlaceId from, PlaceId to) {
    return from == to ? 0 : in_us(costs.stall_time(from, to, chunk));
  });
  for (std::size_t at = 0; at < calibration.peers.both_ways.size(); ++at) {
    const double both = calibration.peers.both_ways[at];
    fmt::print("{}{}: {:.1f} GB/s in both directions together, by kernels in a ring\n",
               at == 0 ? "\n" : "", place_name(calibration.places[at]), both / giga);
  }
  for (std::size_t at = 0; at < calibration.gaps.kernel.size(); ++at) {
    fmt::print("{}{}: {:.1f} us between kernels, {:.1f} us after waiting for one\n",
               at == 0 ? "\n" : "", place_name(calibration.places[at]),
               in_us(calibration.gaps.kernel[at]), in_us(calibration.gaps.round[at]));
  }
  if (calibration.late.wait > Time::zero()) {
    fmt::print("\nstalls are {:.1f} us longer if streams arrive {:.1f} us late\n",
               in_us(calibration.late.longer), in_us(calibration.late.wait));
  }
  if (!calibration.estimates.empty()) fmt::print("\nestimates, not measured\n");
  for (const std::string& what : calibration.estimates) fmt::print("  {}\n", what);
}

std::optional<Calibration> stored(const Settings& settings) {
  const std::unique_ptr<Driver> driver = open_driver(settings.driver);
  const Topology topology = Topology::discover(*driver, settings.devices);
  return stored_calibration(calibration_folder(), machine_fingerprint(*driver, topology));
}

Calibration measured(const Settings& settings, const CalibrateCommand& command) {
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(open_driver(settings.driver), settings));
  CalibrateOptions options;
  options.store = command.keep;
  options.bytes_per_place = static_cast<std::size_t>(command.mib) * MiB;
  options.time_limit = std::chrono::milliseconds(static_cast<int>(command.seconds * 1e3));
  Calibration calibration = runtime.calibrate(options);
  if (command.stops) {
    const bool simulated = runtime.description().starts_with("simulated");
    LiveStops(runtime, simulated ? LiveStops::Sizes{4 * MiB, 16 * MiB, 8 * MiB, 2 * MiB}
                                 : LiveStops::Sizes{16 * MiB, 256 * MiB, 64 * MiB, 256 * MiB})
        .measure(calibration);
    if (!calibration.file.empty()) write_calibration(calibration.file, calibration);
  }
  return calibration;
}

}  // namespace

int run_calibrate(const CalibrateCommand& command) {
  RuntimeOptions options;
  options.driver = command.driver;
  options.suspend = false;  // What is measured are gates.
  const Settings settings = resolve_settings(options);
  std::optional<Calibration> calibration;
  if (command.show) {
    calibration = stored(settings);
    if (!calibration) {
      fmt::print(stderr, "vmart: no calibration of this machine is stored in \"{}\"\n",
                 calibration_folder());
      return 1;
    }
  } else {
    calibration = measured(settings, command);
  }
  if (command.json) {
    fmt::print("{}", to_json(*calibration));
  } else {
    print_calibration(*calibration);
  }
  return 0;
}

}  // namespace vma
